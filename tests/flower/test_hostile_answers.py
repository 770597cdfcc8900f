"""One hostile site: whatever it answers, it is refused by its name and the others go on."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from direct import DirectGrid, run_config
from flwr.app import Array, ArrayRecord, ConfigRecord, Message
from hostile_answers import DONE, HELLO, WEIGHTS, hostile
from tally import Tally
from toys import TINY, settings

from flr.core.contract import Task
from flr.core.traits import Declared
from flr.data.dataset import Normalization, TaskSpec
from flr.engine.refuse_replies import screen
from flr.flower import node as nodes
from flr.flower import wire
from flr.flower.handshake import Handshake
from flr.flower.membership import Membership
from flr.flower.server import serve
from flr.flower.settings import Flower
from flr.flower.transport import FlowerTransport
from flr.simulation.api import Run

SITES = TINY["partition"]["clients"]
SAMPLE = 200


Lie = Callable[[Message, str], Message]  # what is answered to a message of a kind


def honest(site: str, asked: Message, kind: str) -> Message:
    said = {**(HELLO if kind == "hello" else DONE), "site": site}
    return Message(wire.write(said, None if kind == "hello" else WEIGHTS), reply_to=asked)


class TwoWards(DirectGrid):
    """Node 0 answers honestly, node 1 as it likes."""

    def __init__(self, lie: Lie) -> None:
        super().__init__({0: {}, 1: {}})
        self.lie = lie

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        numbers = []
        for message in messages:
            number, node = f"m{len(self.messages)}", message.metadata.dst_node_id
            self.messages.append(message)
            kind = "done" if message.metadata.message_type == "train" else "hello"
            reply = self.lie(message, kind) if node == 1 else honest("ward-0", message, kind)
            self.replies[number] = reply
            numbers.append(number)
        return numbers


def rounds_with(lie: Lie) -> list[str]:
    """Roll call and one task; what is said of both wards, which must not end anything."""
    grid = TwoWards(lie)
    handshake = Handshake(grid, {}, lambda _: "")
    handshake.call()
    assert handshake.nodes["ward-0"] == 0
    handshake.nodes.setdefault("ward-1", 1)
    task_spec = TaskSpec(("a", "b"), (4,), (4,), Normalization((0.0,), (1.0,)), "none")
    flower = Flower(wait=0.1, timeout=5.0)
    membership = Membership("0" * 16, ("ward-0", "ward-1"), (21, 21), task_spec, flower)
    task = Task("fit", (0, 1), WEIGHTS, 1, 1, 2)
    results = FlowerTransport(handshake, membership, {}, least=1).ask(task, {}, False)
    accepted, outcomes = screen(task, results, {"extra": Declared("extra", ("classes",), "")})
    assert 0 in [result.reply.client for result in accepted]
    for result in accepted:  # what passes is as good as an honest answer
        assert result.reply.examples == 21
        assert 0 <= result.seconds < 1e9
        assert all(torch.isfinite(value).all() for value in result.reply.arrays.values())
    return [o.reason for o in outcomes] + list(handshake.refused.values())


def attack(count: int, caplog: pytest.LogCaptureFixture) -> None:
    tally, refused = Tally("hostile answers, the server's readers"), 0
    for seed in range(count):
        caplog.clear()
        try:
            reasons = rounds_with(partial(hostile, seed))
        except Exception as error:  # noqa: BLE001 - whatever it is, the server would have ended
            tally.lose(f"answer {seed}: {type(error).__name__}: {error}")
            continue
        refused += any(reasons)
        lines = reasons + [record.getMessage() for record in caplog.records]
        if all(line.isprintable() and len(line) < 1000 for line in lines):
            tally.survived()
        else:
            tally.lose(f"answer {seed}: it wrote into our log")
    tally.finish()
    assert refused > count / 2


def test_a_sample_of_mutated_answers_ends_nothing(caplog):
    attack(SAMPLE, caplog)


@pytest.mark.attack
def test_no_mutated_answer_ends_anything(caplog, tries):
    attack(tries, caplog)


@pytest.mark.parametrize("kind", ["hello", "done"])
@pytest.mark.parametrize(
    ("note", "words"),
    [
        ("5", "its note that no site of flr says"),
        ("[1]", "its note that no site of flr says"),
        ("[" * 3000, "recursion limit exceeded"),
        ('{"a":' * 3000, "recursion limit exceeded"),
        ('"\ud800"', "Unicode|no site of flr says"),
        ({"site": "\ud800"}, "hex escape|surrogate"),
        ({"seconds": float("nan"), "shape": None}, "finite number|shape"),
        ({"stateful": None, "dtype": None}, "stateful|dtype"),
        ({"problem": "x" * 2**16}, "Expected a note of at most 65536 letters"),
    ],
    ids=["number", "list", "deep", "deeper", "letter", "name", "NaN", "missing", "long"],
)
def test_the_shortest_ways_to_end_a_server_are_refused_in_words(kind, note, words):
    def lie(asked: Message, asked_kind: str) -> Message:
        reply = honest("ward-1", asked, asked_kind)
        if asked_kind == kind:
            said = (
                {**(HELLO if kind == "hello" else DONE), **note} if isinstance(note, dict) else {}
            )
            kept = {key: value for key, value in said.items() if value is not None}
            text = json.dumps(kept) if said else note
            reply.content["note"] = ConfigRecord({"schema": wire.SCHEMA, "json": text})
        return reply

    (reason,) = filter(None, rounds_with(lie))
    assert re.search(words, reason)


@pytest.mark.parametrize("kind", ["hello", "train"])
def test_a_run_goes_on_beside_hostile_sites(kind, tmp_path):
    """Two of the sites answer nonsense to everything of one kind, from the first round on."""
    state = str(tmp_path / "state")
    nodes: dict[int, Any] = {k: {"partition-id": k, "state-dir": state} for k in range(SITES)}
    if kind == "hello":
        nodes |= {SITES + k: {"partition-id": 0, "state-dir": state} for k in range(2)}
    grid = DirectGrid(nodes)
    bad, honest = set(list(nodes)[-2:]), grid.push_messages

    def push(messages: Iterable[Message]) -> list[str]:
        held = list(messages)
        numbers = honest(held)
        for message, number in zip(held, numbers, strict=True):
            asked = message.metadata
            if asked.dst_node_id in bad and (kind == "hello" or asked.message_type == "train"):
                grid.replies[number] = hostile(len(grid.messages), message, "done")
        return numbers

    grid.push_messages = push  # type: ignore[method-assign]
    everyone = settings("fedavg", train={"participation": 1.0})
    serve(grid, run_config(everyone, tmp_path / "run"))
    run = Run(tmp_path / "run")
    assert len(run.metrics) == TINY["rounds"]
    refused = {c["site"] for c in run.clients if c["status"] != "ok"}
    assert refused <= {f"site-{SITES - 1}", f"site-{SITES - 2}"}
    assert bool(refused) == (kind == "train")


def test_arrays_of_another_site_are_not_even_read(monkeypatch):
    read: list[Any] = []
    monkeypatch.setattr(wire, "from_record", read.append)
    grid = TwoWards(partial(hostile, 0))
    handshake = Handshake(grid, {}, lambda _: "", nodes={"ward-7": 0})
    task_spec = TaskSpec(("a", "b"), (4,), (4,), Normalization((0.0,), (1.0,)), "none")
    flower = Flower(wait=0.1, timeout=5.0)
    membership = Membership("0" * 16, ("ward-7",), (21,), task_spec, flower)
    task = Task("fit", (0,), WEIGHTS, 1, 1, 2)
    (result,) = FlowerTransport(handshake, membership, {}, least=1).ask(task, {}, False)
    assert "another one now" in result.problem
    assert not read


@pytest.mark.parametrize("shape", ["(1000000000000,)", "(3, 5)", "(-3, -4)", "(2**40,)", "3"])
def test_an_array_that_claims_another_size_makes_no_room_for_it(shape):
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".encode()
    data = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(48)
    content = wire.write({}, {})
    content["arrays"] = ArrayRecord(
        {"w": Array(dtype="float32", shape=(3, 4), stype="numpy.ndarray", data=data)}
    )
    with pytest.raises(wire.WireError, match="cannot be read"):
        wire.read_arrays(content)


def test_columns_first_cross_the_wire_too():
    content = wire.write({}, {})
    content["arrays"] = ArrayRecord({"w": Array(np.asfortranarray(np.arange(6.0).reshape(2, 3)))})
    assert wire.read_arrays(content)["w"].tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]


def test_an_answer_that_flower_cannot_inflate_costs_nobody_elses(tmp_path: Path):
    grid = DirectGrid({k: {"partition-id": k, "state-dir": str(tmp_path)} for k in range(SITES)})
    real = grid.pull_messages

    def pull(numbers: Iterable[str]) -> list[Message]:
        replies = real(numbers)
        for reply in replies:
            note = json.loads(str(reply.content.config_records["note"]["json"]))
            if note["site"] == "site-1" and "stateful" in note:
                raise KeyError("no such class of objects")
        return replies

    grid.pull_messages = pull  # type: ignore[method-assign]
    everyone = settings("fedavg", train={"participation": 1.0})
    serve(grid, run_config(everyone, tmp_path / "run"))
    refused = {c["site"]: c["reason"] for c in Run(tmp_path / "run").clients if c["reason"]}
    assert refused.keys() == {"site-1"}
    assert "Flower cannot read" in refused["site-1"]


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        ("missing", "fedrn.output is missing"),
        ("short", "fedrn.output has shape (3,), expected ('classes',)"),
    ],
)
def test_what_a_method_needs_of_all_is_not_missing(spoil, reason, tmp_path, monkeypatch):
    real = nodes.execute

    def execute(own: Any, *args: Any) -> Any:
        found = real(own, *args)
        sent = found.reply.arrays
        if own.site == "site-1" and "fedrn.output" in sent:
            output = sent.pop("fedrn.output")
            sent |= {"fedrn.output": output[:3]} if spoil == "short" else {}
        return found

    monkeypatch.setattr(nodes, "execute", execute)
    ids = {k: {"partition-id": k, "state-dir": str(tmp_path / "state")} for k in range(SITES)}
    everyone = settings("fedrn", train={"participation": 1.0})
    serve(DirectGrid(ids), run_config(everyone, tmp_path / "run"))
    run = Run(tmp_path / "run")
    assert len(run.metrics) == TINY["rounds"]
    refused = {c["site"]: c["reason"] for c in run.clients if c["status"] != "ok"}
    assert refused == {"site-1": reason}
