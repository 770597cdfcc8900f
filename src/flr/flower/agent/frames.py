"""Messages on an agent's socket: four letters, a length, a JSON header, then plain bytes.

Who sends them may be anybody's code. Nothing is made room for before it has come, every wait has
an end, and what is no frame is refused by its first eight bytes.
"""

from __future__ import annotations

import json
import math
import socket
import struct
import time
from collections.abc import Iterable, Mapping
from typing import Any

MAGIC = b"FLR1"
LONGEST_HEADER = 1 << 22  # bytes: a config, a class list, and the names of all arrays

_START = struct.Struct("!4sI")  # MAGIC and the header's length
_PIECE = 1 << 20


class FrameError(Exception):
    """Bytes that are no frame, too many of them, or none in time."""


class EndedError(FrameError):
    """The other side has gone in the middle of a frame."""


def send(connection: socket.socket, header: Mapping[str, Any], parts: Iterable[bytes] = ()) -> None:
    """Writes one frame; its header has to say how long each part is."""
    text = json.dumps(header, allow_nan=False).encode()
    if len(text) > LONGEST_HEADER:
        raise FrameError(f"a header of {len(text):,} bytes; at most {LONGEST_HEADER:,} may be sent")
    connection.sendall(_START.pack(MAGIC, len(text)) + text)
    for part in parts:
        connection.sendall(part)


def receive_header(connection: socket.socket, until: float = math.inf) -> bytes:
    """The header's JSON as it was sent; `until` is a time of the monotonic clock."""
    magic, length = _START.unpack(receive(connection, _START.size, until))
    if magic != MAGIC or length > LONGEST_HEADER:
        raise FrameError(f"no header of flr: it begins with {magic!r} and a length of {length:,}")
    return receive(connection, length, until)


def receive(connection: socket.socket, size: int, until: float = math.inf) -> bytes:
    """So many bytes; memory grows with what really comes."""
    found = bytearray()
    while len(found) < size:
        left = until - time.monotonic()
        if left <= 0:
            raise FrameError(f"{len(found):,} of {size:,} bytes came in time")
        connection.settimeout(None if left == math.inf else left)
        try:
            piece = connection.recv(min(size - len(found), _PIECE))
        except TimeoutError:
            continue
        if not piece:
            raise EndedError(f"the other side ended after {len(found):,} of {size:,} bytes")
        found += piece
    return bytes(found)
