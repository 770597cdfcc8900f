"""Answers of a hostile site, made from honest ones: the same seed gives the same answer."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import torch
from flwr.app import Array, ConfigRecord, Error, Message, MetricRecord, RecordDict

from flr.flower import wire

HELLO = {"site": "ward-1", "examples": 21, "shape": [4], "dtype": "float32"}
DONE = {"site": "ward-1", "examples": 21, "stateful": True, "seconds": 0.5}
WEIGHTS = {"model.0.w": torch.ones(3, 4), "model.0.n": torch.tensor(2)}

ODD: list[Any] = [
    None, True, False, 0, 5, -1, 1.5, 10**9, 10**30, 10**400, float("nan"), float("inf"), "", "5",
    "\ud800", "\x1b[2J\x1b]0;owned\x07", "a\nflr: b", "\u202e", "x" * 10**5, [], [1], [[]], {},
    {"site": 1}, [10**12, 10**12], [0], [-1], "../../x", b"\xff", [None] * 1000,
]  # fmt: skip
RAW = ["5", "[1]", "null", '"x"', "{", "", "[" * 3000, '{"a":' * 3000, "9" * 9000, "NaN", "\x00"]
HEADER = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,), }"


def hostile(seed: int, asked: Message, kind: str) -> Message:
    """One answer to a message, spoiled in one to three ways."""
    draw = random.Random(seed)  # noqa: S311
    note: Any = dict(HELLO if kind == "hello" else DONE)
    records: dict[str, Any] = {}
    if kind == "done" and draw.random() < 0.5:  # the arrays alone
        records["note"] = wire.write(note)["note"]
    else:
        records["note"] = _note(draw, note)
    if kind == "done" or draw.random() < 0.1:
        records["arrays"] = _arrays(draw)
    if draw.random() < 0.05:
        return Message(Error(7, "\x1b[31m" * draw.randint(0, 9000)), reply_to=asked)
    return Message(RecordDict(records), reply_to=asked)


def _note(draw: random.Random, note: Any) -> Any:
    for _ in range(draw.randint(1, 3)):
        draw.choice((_key, _lose, _nest))(draw, note)
    version = draw.choice([1] * 16 + [2, True, "1", 1.0])
    record: dict[str, Any] = {"schema": version, "json": _text(draw, note)}
    if draw.random() < 0.05:
        record.pop(draw.choice(list(record)))
    return draw.choice([ConfigRecord] * 19 + [_metrics])(record)


def _key(draw: random.Random, note: Any) -> None:
    note[draw.choice([*note, "problem", "more"])] = draw.choice(ODD)


def _lose(draw: random.Random, note: Any) -> None:
    if note:
        del note[draw.choice(list(note))]


def _nest(draw: random.Random, note: Any) -> None:
    value: Any = 1
    for _ in range(draw.choice([1, 50, 900])):
        value = [value] if draw.random() < 0.5 else {"a": value}
    note[draw.choice(["site", "examples", "shape", "problem", "other"])] = value


def _text(draw: random.Random, note: Any) -> Any:
    """The note as text: as it is, damaged, or something else."""
    text = json.dumps(note, default=repr)
    way = draw.random()
    if way < 0.15:
        return draw.choice(RAW)
    if way < 0.35:
        letters = list(text)
        for _ in range(draw.randint(1, 4)):
            letters[draw.randrange(len(letters))] = chr(draw.choice([0, 34, 91, 123, 125, 0x202E]))
        return "".join(letters)
    return draw.choice([5, b"{}", [1, 2], text]) if way < 0.4 else text


def _metrics(record: dict[str, Any]) -> MetricRecord:
    return MetricRecord({"schema": 1})


def _arrays(draw: random.Random) -> Any:
    if draw.random() < 0.05:
        return ConfigRecord({"x": 1})
    record = wire.to_record(WEIGHTS)
    name = draw.choice([*record, "flr.extra", "\x1b[2J", "n" * 5000])
    data = bytearray(record["model.0.w"].data)
    way = draw.randrange(6)
    if way == 0:
        for _ in range(draw.randint(1, 8)):
            data[draw.randrange(len(data))] = draw.randrange(256)
    elif way == 1:
        data = data[: draw.randrange(len(data))]
    elif way == 2:
        data = bytearray(b"\x93NUMPY\x01\x00" + len(HEADER).to_bytes(2, "little") + HEADER)
    elif way == 3:
        data = bytearray(draw.choice([b"", b"PK\x03\x04" + bytes(40), b"-" * 9000, b"\x80\x04N."]))
    elif way == 4:
        odd = [np.array(["a"]), np.ones(3, ">f8"), np.ones(2, complex), np.full((3, 4), np.nan)]
        record[name] = Array(draw.choice(odd))
        return record
    stype = draw.choice(["numpy.ndarray", "numpy.ndarray", "torch", ""])
    record[name] = Array(dtype="float32", shape=(3, 4), stype=stype, data=bytes(data))
    return record
