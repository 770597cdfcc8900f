"""A Flower app whose node lies where its config says so; the others run it as it is.

`lies` in the node config is a file that says what to lie about, and the number of a way to lie for
each round. It imports no torch for most of them: where sites have agents, a message is then cheap.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Array, ConfigRecord, Context, Error, Message
from flwr.clientapp import ClientApp

from flr.flower.apps import client_app
from flr.flower.records import ARRAYS, NOTE, SCHEMA, TEXT, VERSION

NOTES: list[Any] = [
    "5",
    "[1]",
    "[" * 3000,
    {"seconds": float("nan"), "shape": [10**12, 10**12]},
    {"examples": 10**9},
    {"examples": "NUMBER"},
    {"stateful": "yes", "dtype": "object"},
    {"site": "site-0\nflr: all is well"},
    {"problem": "\x1b[2J" * 1000},
]
ODD_ARRAYS: list[Any] = [
    np.full(3, np.nan, np.float32),
    np.full((2, 2), 3e38, np.float32),
    np.ones(2, np.complex64),
    np.array(["words"]),
    None,
]
WAYS = len(NOTES) + len(ODD_ARRAYS) + 2


def lie(number: int, asked: Message, reply: Message) -> Message:
    """An answer that no honest site gives, made from an honest one."""
    if number >= WAYS:
        from hostile_answers import hostile

        return hostile(number, asked, "done" if asked.metadata.message_type == "train" else "hello")
    if number == WAYS - 1:
        return Message(Error(7, "\x1b[31m" * 9000), reply_to=asked)
    if number == WAYS - 2:
        raise RuntimeError("it ends in the middle of an answer")
    if number < len(NOTES):
        note = NOTES[number]
        if isinstance(note, dict):
            honest = json.loads(str(reply.content.config_records[NOTE][TEXT]))
            note = json.dumps(honest | note).replace('"NUMBER"', "9" * 400)
        reply.content[NOTE] = ConfigRecord({VERSION: SCHEMA, TEXT: note})
        return reply
    arrays, value = reply.content.array_records.get(ARRAYS), ODD_ARRAYS[number - len(NOTES)]
    if arrays is None:
        return lie(0, asked, reply)
    name = sorted(arrays)[0]
    del arrays[name]
    if value is not None:
        arrays[name] = Array(value)
    return reply


class LyingApp(ClientApp):
    """Honest work, and a lie about it."""

    def __call__(self, message: Message, context: Context) -> Message:
        reply = super().__call__(message, context)
        if "lies" not in context.node_config:
            return reply
        about, *ways = Path(str(context.node_config["lies"])).read_text().split()
        if message.metadata.message_type.split(".")[0] != about:
            return reply
        asked = json.loads(str(message.content.config_records[NOTE][TEXT]))
        return lie(int(ways[asked["order"]["round"] if "order" in asked else 0]), message, reply)


def lying_app() -> ClientApp:
    app = client_app()
    app.__class__ = LyingApp
    return app
