"""The ClientApp of a site with an agent: carries each message to it and its answer back.

It runs in the process that Flower starts for every message, beside whatever else the app bundle
holds. It has no data, no policy and no torch: what a site answers is for its agent to say.
"""

from __future__ import annotations

import json
import logging
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flwr.app import (
    Array,
    ArrayRecord,
    ConfigRecord,
    Context,
    Error,
    Message,
    RecordDict,
)

from flr.flower.agent import frames
from flr.flower.agent.frames import EndedError, FrameError
from flr.flower.records import ARRAYS, NOTE, SCHEMA, TEXT, VERSION

log = logging.getLogger("flr")

KEY = "agent"  # in the node config: the agent's socket

WAIT = 90.0  # seconds for an agent that is starting, or starts again: torch takes a while
TRIES = 5  # at one message; an agent that ends each time will not do it the sixth
_PAUSE = 0.2

_OWNED = ("data", "label", "size", "classes", "state-dir", "policy", "device")  # by the agent


class AgentError(Exception):
    """Why there is no answer of the agent, in words that may leave the site."""


def hand_over(message: Message, context: Context) -> Message:
    """The agent's answer to a message; where there is none, why."""
    own = context.node_config
    try:
        if doubled := [key for key in _OWNED if own.get(key) is not None]:
            raise AgentError(
                f"its node config names an agent, and {', '.join(doubled)} besides, which is the "
                "agent's to say. Give it to `flr site serve`"
            )
        header, parts = _asked(message)
        answer, blobs = ask(Path(str(own[KEY])).expanduser(), header, parts, WAIT)
        return _reply(message, answer, blobs)
    except AgentError as error:
        log.warning("%s", error)
        note = {"site": str(own.get("site") or ""), "problem": str(error)}
        return Message(RecordDict({NOTE: _note(json.dumps(note))}), reply_to=message)


def ask(
    path: Path, header: Mapping[str, Any], parts: list[bytes], wait: float = WAIT
) -> tuple[dict[str, Any], list[bytes]]:
    """Header and parts of the agent's answer.

    An agent that is killed at work is asked again when it is back: a task has no effect that a
    second one would not have, too.
    """
    until, tries = time.monotonic() + wait, 0
    while True:
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
                connection.connect(str(path))
                answer, blobs = _once(connection, header, parts)
            if not answer.get("busy"):
                return answer, blobs
        except (EndedError, ConnectionResetError):
            tries, until = tries + 1, time.monotonic() + wait
        except PermissionError:
            raise AgentError(
                "its SuperNode may not open the agent's socket. Name its user to the agent: flr "
                "site serve --allow-user"
            ) from None
        except OSError as error:  # not there, or gone while it was told
            log.debug("the agent at %s: %s", path, error)
        except (FrameError, ValueError, KeyError, TypeError, RecursionError) as error:
            log.error("the agent at %s: %s", path, error)
            raise AgentError(
                "its agent speaks another language. Install the same version of flr for agent and "
                "SuperNode"
            ) from None
        if tries >= TRIES:
            raise AgentError("its agent ended each time it was asked; the agent's log says why")
        if time.monotonic() >= until:
            log.error("no agent listens at %s", path)
            raise AgentError(
                "its agent does not answer. Start it there: flr site serve; its node config has to "
                "name the same socket"
            )
        time.sleep(_PAUSE)


def _once(
    connection: socket.socket, header: Mapping[str, Any], parts: list[bytes]
) -> tuple[dict[str, Any], list[bytes]]:
    try:
        frames.send(connection, header, parts)
    except OSError as error:  # it may have said why before it closed
        log.debug("the agent stopped listening: %s", error)
    answer = json.loads(frames.receive_header(connection))
    if "refused" in answer:
        raise AgentError(str(answer["refused"]))
    listed = answer.get(ARRAYS) or []
    return answer, [frames.receive(connection, each["bytes"]) for each in listed]


def _asked(message: Message) -> tuple[dict[str, Any], list[bytes]]:
    """A message of the server, as a frame."""
    content = message.content
    arrays = content.array_records.get(ARRAYS)
    header = {
        "type": message.metadata.message_type,
        "note": dict(content.config_records.get(NOTE, ConfigRecord())),
        ARRAYS: None if arrays is None else listed(arrays),
    }
    return header, [] if arrays is None else [array.data for array in arrays.values()]


def listed(arrays: ArrayRecord) -> list[dict[str, Any]]:
    """What a header says of each array; their bytes follow in this order."""
    return [
        {
            "name": name,
            "dtype": array.dtype,
            "shape": list(array.shape),
            "stype": array.stype,
            "bytes": len(array.data),
        }
        for name, array in arrays.items()
    ]


def to_content(
    note: Mapping[str, Any], arrays: list[dict[str, Any]] | None, parts: list[bytes]
) -> RecordDict:
    """The content of a message from the parts of a frame."""
    content = RecordDict({NOTE: ConfigRecord(dict(note))})
    if arrays is not None:
        record = content[ARRAYS] = ArrayRecord()
        for each, data in zip(arrays, parts, strict=True):
            shape = tuple(each["shape"])
            record[each["name"]] = Array(each["dtype"], shape, each["stype"], data)
    return content


def _reply(message: Message, answer: Mapping[str, Any], parts: list[bytes]) -> Message:
    if "error" in answer:
        return Message(Error(answer["error"]["code"], answer["error"]["reason"]), reply_to=message)
    content = to_content(answer["note"], answer.get(ARRAYS), parts)
    return Message(content, reply_to=message)


def _note(text: str) -> ConfigRecord:
    return ConfigRecord({VERSION: SCHEMA, TEXT: text})
