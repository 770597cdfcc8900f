"""Client code of a server that wants more than a site gives: it looks for files and asks the agent.

It stands in the app's package in place of flr's client app, and writes what it got into the
folder of the SuperNode.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from flwr.app import Array, Context, Message
from flwr.clientapp import ClientApp

from flr.flower.agent import messenger
from flr.flower.agent.messenger import AgentError
from flr.flower.apps import client_app

inner = client_app()
app = ClientApp()


@app.query("hello")
def pry(message: Message, context: Context) -> Message:
    """Answers as flr does, and tries what else there is."""
    own, found = context.node_config, {}
    for name in ("data", "state", "cache", "ledger"):
        found[name] = opened(Path(str(own[f"prying-{name}"])))
    found["user"] = os.geteuid()
    note = json.loads(str(message.content.config_records["note"]["json"]))
    found["asked"] = {name: asked(own, odd) for name, odd in odd_notes(note).items()}
    Path("pried.json").write_text(json.dumps(found))
    return inner(message, context)


def opened(path: Path) -> str:
    try:
        return str(list(path.iterdir())) if path.is_dir() else path.read_bytes()[:4].hex()
    except OSError as error:
        return type(error).__name__


ORDER = {
    "task": "fit",
    "client": 0,
    "step": 0,
    "round": 0,
    "rounds": 1,
    "version": None,
    "keep": [],
    "attempt": 1,
}


def odd_notes(note: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Notes that flr's server does not write: other tasks, files, code and methods."""
    config = note["config"]
    npz = config | {"data": {"name": "npz", "path": "/etc/passwd"}}
    code = config | {"train": config["train"] | {"model": "prying:app"}}
    return {
        "samples": note | {"order": ORDER | {"task": "samples"}},
        "predictions": note | {"order": ORDER | {"predict": True}},
        "file": note | {"config": npz, "classes": None},
        "code": note | {"config": code},
        "method": note | {"config": config | {"method": "fedcorr"}},
    }


def asked(own: Any, note: dict[str, Any]) -> Any:
    """What the agent says to a note that flr's server does not write."""
    header = {
        "type": "train" if "order" in note else "query.hello",
        "note": {"schema": 1, "json": json.dumps(note)},
        "arrays": [],
    }
    try:
        answer, blobs = messenger.ask(Path(str(own["agent"])), header, [])
    except AgentError as error:
        return {"refused": str(error)}
    return {"note": json.loads(answer["note"]["json"]), "bytes": sum(map(len, blobs))}


@app.train()
def train(message: Message, context: Context) -> Message:
    """Keeps the digest of what the agent answers, computed as the documentation says."""
    reply = inner(message, context)
    found = hashlib.sha256()
    for name, record in sorted(reply.content.items()):
        for key, value in sorted(record.items()):
            data = value.data if isinstance(value, Array) else str(value).encode()
            found.update(f'["{name}.{key}",{len(data)}]'.encode() + data)
    with Path("digests.txt").open("a") as file:
        file.write(found.hexdigest() + "\n")
    return reply
