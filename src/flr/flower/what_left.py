"""Enters every reply of a node into the site's ledger, as it is when Flower gets it."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator, Mapping
from typing import Any

from flwr.app import Array, Context, Message, RecordDict
from flwr.clientapp.typing import ClientAppCallable

from flr import config as configs
from flr.client.what_leaves import FIT
from flr.config.entry import without_code
from flr.core import seal
from flr.core.arrays import canonical_json
from flr.core.contract import MODEL
from flr.core.errors import FlrError
from flr.core.plain_text import kind_of, plain
from flr.core.traits import by_name
from flr.flower import ledger, wire
from flr.flower.handshake import is_count
from flr.flower.ledger import ArrayForm, Left
from flr.flower.records import NOTE, TEXT, VERSION
from flr.flower.site_config import state_dir

log = logging.getLogger("flr")

_NO_LEDGER = "it cannot write its ledger, so nothing leaves it: {}; its log says more"


def ledger_mod(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
    """The outermost of all mods: no reply leaves before its line is on the disk."""
    reply, site = call_next(message, context), ""
    try:
        left = entry_of(message, reply)
        site = left.site
        ledger.append(state_dir(context.node_config), left)
    except Exception as error:
        log.exception("the ledger cannot be written")
        said = {"site": site, "problem": _NO_LEDGER.format(kind_of(error))}
        return Message(wire.write(said), reply_to=message)
    if odd := left.undeclared():
        log.warning("%s has sent what was not declared: %s", left.site, ", ".join(map(plain, odd)))
    return reply


def entry_of(message: Message, reply: Message) -> Left:
    """What a reply holds, and what the server's message says it is for."""
    asked = note_of(message)
    order = asked.get("order")
    order = order if isinstance(order, dict) else {}
    task = plain(order.get("task")) if order else ledger.ROLL_CALL
    numbers = [order.get(key) for key in ("round", "step", "attempt")]
    turn, step, attempt = (int(n) if is_count(n) else 0 for n in numbers)
    said = {"error": plain(reply.error.reason)} if reply.has_error() else note_of(reply)
    content = RecordDict() if reply.has_error() else reply.content
    received, sent = _arrays(message.content), _arrays(content)
    same = {name for name, form in sent.items() if task == FIT and received.get(name) == form}
    weights = {name for name in same if name.startswith(MODEL)}
    method, declared = _declared(asked.get("config"))
    pieces = list(_pieces(content))
    return Left(
        site=plain(said.get("site", "")),
        run=plain(asked.get("experiment", "")),
        asked=task,
        round=turn + 1 if order else 0,
        step=step,
        attempt=attempt,
        method=method,
        note=said,
        weights=len(weights),
        arrays={name: form for name, form in sent.items() if name not in weights},
        declared=declared if sent else {},
        bytes=sum(len(data) for _, data in pieces),
        sha256=_digest(pieces),
    )


def note_of(message: Message) -> dict[str, Any]:
    """A message's note; empty where there is none, which a site refuses."""
    try:
        text = wire.note_text(message.content)
        return seal.unverified(text.encode(errors="backslashreplace").decode())
    except (wire.WireError, ValueError):
        return {}


def _arrays(content: RecordDict) -> dict[str, ArrayForm]:
    """The arrays of a message; whatever else is in it is one, of a form that nobody declares."""
    found = {}
    for name, record in content.items():
        for key, value in record.items():
            if isinstance(value, Array):
                found[key] = ArrayForm(value.dtype, tuple(value.shape))
            elif name != NOTE or key not in (VERSION, TEXT):
                found[f"{name}.{key}"] = ArrayForm(type(value).__name__, ())
    return found


def _declared(tree: object) -> tuple[str, dict[str, ArrayForm]]:
    """The method's name and what it sends besides the weights; imports no code of the server's."""
    try:
        with without_code():
            config = configs.parse(tree if isinstance(tree, Mapping) else {})
            traits = config.build_method().traits
    except FlrError:  # such a config was refused
        return "", {}
    words = {
        name: ArrayForm(str(d.dtype).removeprefix("torch."), d.shape, d.what)
        for name, d in by_name(traits.sends, traits.networks).items()
    }
    return config.label, words


def _pieces(content: RecordDict) -> Iterator[tuple[str, bytes]]:
    """All that is in a message, by name and in a fixed order."""
    for name, record in sorted(content.items()):
        for key, value in sorted(record.items()):
            data = value.data if isinstance(value, Array) else str(value).encode()
            yield f"{name}.{key}", data


def _digest(pieces: list[tuple[str, bytes]]) -> str:
    found = hashlib.sha256()
    for name, data in pieces:
        found.update(canonical_json([name, len(data)]).encode() + data)
    return found.hexdigest()
