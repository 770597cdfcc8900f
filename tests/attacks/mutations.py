"""Files spoiled at random, on the outside and, where a format has checksums, inside them too."""

from __future__ import annotations

import codecs
import gzip
import io
import json
import random
import re
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flr.core import seal
from flr.core.arrays import canonical_json

Mutator = Callable[[bytes, random.Random], bytes]

TOKENS = [
    b"", b"\x00", b"\xff", b"-1", b"0", b"1e400", b"9" * 400, b"nan", b"NaN", b"inf", b"null", b'"',
    b"'", b"[", b"]", b"{", b"}", b",", b"\n", b"=", b"[" * 5000, b'{"a":' * 5000, b"../../etc",
    b"\x1b[2J", b"true", b"\\ud800", b"\xed\xa0\x80", b"1000000000000", b"(", b"()", b"2**40",
    b"|O",
]  # fmt: skip
ODD: list[Any] = [
    None, True, 0, -1, 1.5, 10**12, 10**30, float("nan"), float("inf"), "", "5", "\ud800", "[/b]",
    "\x1b[2J", "a\nb", "x" * 10**5, [], [1], [[]], {}, {"name": 1}, [10**12, 10**12], "os:getcwd",
    "../../x", [None] * 1000,
]  # fmt: skip
DEEP = ["[" * 5000 + "]" * 5000, '{"a":' * 5000 + "1" + "}" * 5000]


def raw(data: bytes, draw: random.Random) -> bytes:
    """Bytes changed, put in, taken out or cut off."""
    changed = bytearray(data)
    for _ in range(draw.choice((1, 1, 2, 5))):
        place = draw.randrange(len(changed) + 1)
        match draw.randrange(5):
            case 0 if place < len(changed):
                changed[place] ^= 1 << draw.randrange(8)
            case 1:
                changed[place : place + draw.randrange(9)] = draw.choice(TOKENS)
            case 2:
                del changed[place : place + draw.choice((1, 4, 100))]
            case 3:
                changed[place:place] = changed[place : place + draw.choice((4, 100))]
            case _:
                del changed[place:]
    return bytes(changed)


def words(data: bytes, draw: random.Random) -> bytes:
    """One word or number of a text in place of which something else stands."""
    lines = data.split(b"\n")
    place = draw.randrange(len(lines))
    parts = lines[place].split(b" " if b" " in lines[place] else b",")
    parts[draw.randrange(len(parts))] = draw.choice(TOKENS)
    lines[place] = (b" " if b" " in lines[place] else b",").join(parts)
    return b"\n".join(lines)


def as_json(data: bytes, draw: random.Random) -> bytes:
    """One value of a JSON text is another one, or gone."""
    if draw.random() < 0.05:
        return draw.choice(DEEP).encode()
    value = _changed(json.loads(data), draw)
    text = json.dumps(value)
    return text.replace('"DEEP"', draw.choice(DEEP)).encode()


def _changed(value: Any, draw: random.Random) -> Any:
    inside = (
        list(value) if isinstance(value, dict) else range(len(value)) if _is_list(value) else ()
    )
    if not inside or draw.random() < 0.15:
        return draw.choice([*ODD, "DEEP"])
    key = draw.choice(list(inside))
    if draw.random() < 0.1:
        del value[key]
    else:
        value[key] = _changed(value[key], draw)
    return value


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def signed_json(data: bytes, draw: random.Random) -> bytes:
    """The same in a file that has its own digest, which is right: its author is the attacker."""
    facts = json.loads(data)
    facts.pop("digest", None)
    changed = _changed(facts, draw)
    try:
        return seal.signed(changed).encode()
    except (TypeError, ValueError):  # no JSON object any more
        return json.dumps(changed).encode()


def lines_of_json(data: bytes, draw: random.Random) -> bytes:
    lines = data.rstrip(b"\n").split(b"\n")
    place = draw.randrange(len(lines))
    lines[place] = as_json(lines[place], draw)
    return b"\n".join([*lines, b""])


def safetensors(data: bytes, draw: random.Random) -> bytes:
    """The header: of the file itself, or what flr has written into its metadata."""
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + size])
    if "__metadata__" in header and draw.random() < 0.7:
        kept = header["__metadata__"]["flr"].encode()
        header["__metadata__"]["flr"] = as_json(kept, draw).decode("utf-8", "replace")
        text = canonical_json(header).encode()
    else:
        text = as_json(canonical_json(header).encode(), draw)
    return struct.pack("<Q", len(text)) + text + data[8 + size :]


def npz(data: bytes, draw: random.Random) -> bytes:
    """A member of the archive, mostly its header, with a checksum that is right again."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as archive, zipfile.ZipFile(out, "w") as changed:
        spoiled = draw.choice(archive.namelist())
        for name in archive.namelist():
            content = archive.read(name)
            if name == spoiled:
                head = 128 if draw.random() < 0.8 else len(content)
                content = draw.choice((raw, words))(content[:head], draw) + content[head:]
            changed.writestr(name, content)
    return out.getvalue()


def png(data: bytes, draw: random.Random) -> bytes:
    """A chunk of a picture, with a checksum that is right again."""
    place, out = 8, data[:8]
    while place < len(data):
        size = struct.unpack(">I", data[place : place + 4])[0]
        kind, content = data[place + 4 : place + 8], data[place + 8 : place + 8 + size]
        if draw.random() < 0.5:
            content = raw(content, draw)
        out += struct.pack(">I", len(content)) + kind + content
        out += struct.pack(">I", zlib.crc32(kind + content))
        place += 12 + size
    return out


def gz(data: bytes, draw: random.Random) -> bytes:
    """What is packed, packed again."""
    content = gzip.decompress(data)
    head = 16 if draw.random() < 0.7 else len(content)
    return gzip.compress(raw(content[:head], draw) + content[head:], 1)


def utf16(data: bytes, draw: random.Random) -> bytes:
    """Words or lines of a text, if it is one of two bytes a letter; else of a plain one."""
    if not data.startswith(codecs.BOM_UTF16):
        return draw.choice((words, raw))(data, draw)
    changed = draw.choice((words, raw))(data.decode("utf-16").encode(), draw)
    return changed.decode("utf-8", "replace").encode("utf-16")


def xlsx(data: bytes, draw: random.Random) -> bytes:
    """A value in a part of a workbook, mostly of the sheet, with a checksum that is right again."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as book, zipfile.ZipFile(out, "w") as changed:
        names = book.namelist()
        sheets = [name for name in names if "sheet1" in name or "sharedStrings" in name]
        spoiled = draw.choice(sheets if draw.random() < 0.6 else names)
        for name in names:
            content = book.read(name)
            changed.writestr(name, _xml(content, draw) if name == spoiled else content)
    return out.getvalue()


def _xml(content: bytes, draw: random.Random) -> bytes:
    """An attribute or a text is another one; or a whole element is gone or there twice."""
    places = list(re.finditer(rb'(?<=")[^"<>]*(?=")|(?<=>)[^<]+(?=<)|<[^<>]*>', content))
    start, end = draw.choice(places).span()
    token = draw.choice([*TOKENS, b"16384", b"1048576", b"XFD1048576", b"A1:XFD1048576"])
    here = content[start:end]
    new = draw.choice((token, token, here + here)) if not here.startswith(b"<") else b""
    return content[:start] + new + content[end:]


def dicom(data: bytes, draw: random.Random) -> bytes:
    """One element: another length, kind or value where a short one stands, or none at all."""
    heads = [m.start() for m in re.finditer(rb"[\x02\x08\x28\xe0]\x00..[A-Z]{2}", data, re.DOTALL)]
    place = draw.choice(heads) if heads else 0
    end = place + 8 + int.from_bytes(data[place + 6 : place + 8], "little")
    match draw.randrange(4):
        case 0:
            return data[: place + 6] + draw.randbytes(2) + data[place + 8 :]
        case 1:
            kind = draw.choice((b"US", b"DS", b"OW", b"SQ", b"UN", b"LO", b"FD"))
            return data[: place + 4] + kind + data[place + 6 :]
        case 2:
            new = draw.choice((b"\xff\xff", b"\0\0", b"\x01\x00", b"1e400 ", b"-1", b"nan ", b""))
            size = len(new).to_bytes(2, "little")
            return data[: place + 6] + size + new + data[end:]
        case _:
            return data[:place] + data[end:]


_INSIDE: dict[str, tuple[Mutator, ...]] = {
    ".toml": (words,),
    ".csv": (words, utf16),
    ".tsv": (utf16,),
    ".xlsx": (xlsx,),
    ".dcm": (dicom,),
    ".json": (as_json, signed_json),
    ".jsonl": (lines_of_json,),
    ".safetensors": (safetensors,),
    ".npz": (npz,),
    ".png": (png,),
    ".gz": (gz,),
}


def spoil(path: Path, draw: random.Random) -> str:
    """Spoils a file in one way; says which."""
    how = draw.choice((raw, *_INSIDE.get(path.suffix, ()), *_INSIDE.get(path.suffix, ())))
    path.write_bytes(how(path.read_bytes(), draw))
    return f"{path.name} {how.__name__}"
