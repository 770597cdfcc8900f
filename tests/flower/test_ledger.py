"""A site's ledger: every reply is in it, and nobody changes or removes a line unseen."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from direct import DirectGrid, run_config
from flwr.app import Array, Message
from toys import TINY, settings

from flr.core.errors import DataError
from flr.flower import ledger, wire
from flr.flower import node as nodes
from flr.flower.ledger import ArrayForm, Left
from flr.flower.server import serve

SITES = TINY["partition"]["clients"]
EVERYONE = {"participation": 1.0}


class Keeping(DirectGrid):
    """Keeps the answers as the server gets them, by node."""

    def __init__(self, nodes: Any) -> None:
        super().__init__(nodes)
        self.heard: dict[int, list[Message]] = {node: [] for node in nodes}

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        held = list(messages)
        numbers = super().push_messages(held)
        for message, number in zip(held, numbers, strict=True):
            self.heard[message.metadata.dst_node_id].append(self.replies[number])
        return numbers


def federation(method: Any, folder: Path, sites: int = SITES, **flower: Any) -> Keeping:
    """A run in which every site has a state-dir of its own."""
    own = {k: {"partition-id": k, "state-dir": str(folder / f"site-{k}")} for k in range(sites)}
    grid = Keeping(own)
    changes = {"train": {**EVERYONE, "model": "mlp"}} if flower else {"train": EVERYONE}
    serve(grid, run_config(settings(method, **changes), folder / "run", **flower))
    return grid


def digest(message: Message) -> str:
    """Of all that is in a message, computed as the documentation says."""
    found = hashlib.sha256()
    for name, record in sorted(message.content.items()):
        for key, value in sorted(record.items()):
            data = value.data if isinstance(value, Array) else str(value).encode()
            found.update(f'["{name}.{key}",{len(data)}]'.encode() + data)
    return found.hexdigest()


def left(task: str = "fit", **changes: Any) -> Left:
    plain = Left(
        site="ward-7",
        run="0" * 16,
        asked=task,
        round=1,
        step=0,
        attempt=1,
        method="flr",
        note={"site": "ward-7", "examples": 21, "stateful": True, "seconds": 0.5},
        weights=4,
        arrays={},
        declared={},
        bytes=100,
        sha256="ab" * 32,
    )
    return replace(plain, **changes)


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """A state-dir with a ledger of three lines."""
    for step in range(3):
        ledger.append(tmp_path / "state", left(step=step))
    return tmp_path / "state"


@pytest.mark.parametrize("method", ["fedavg", "fedcorr", "tuor"])
def test_every_reply_is_in_it_as_it_left(method, tmp_path):
    grid = federation(method, tmp_path)
    for node, heard in grid.heard.items():
        found = ledger.read(tmp_path / f"site-{node}")
        assert not found.problems
        assert [line.sha256 for line in found.lines] == [digest(reply) for reply in heard]
        for line, reply in zip(found.lines, heard, strict=True):
            note, arrays = wire.read(reply.content)
            assert line.note == note
            assert line.weights + len(line.arrays) == len(arrays)
            assert line.arrays.keys() == {n for n in arrays if not n.startswith("model.")}
            assert line.method == method
        assert [line.asked for line in found.lines][:2] == ["roll call", found.lines[1].asked]
        assert {line.run for line in found.lines} == {found.lines[0].run}
    everything = {name for line in found.lines for name in line.declared}
    assert everything == {name for line in found.lines for name in line.arrays}


def test_what_is_clipped_is_entered_as_it_leaves(tmp_path):
    grid = federation("fedavg", tmp_path, privacy="client-clipping", **{"clipping-norm": 0.01})
    lines = ledger.read(tmp_path / "site-0").lines
    assert [line.sha256 for line in lines] == [digest(reply) for reply in grid.heard[0]]
    assert any(line.weights for line in lines)


def test_refusals_are_entered_too(tmp_path):
    own = {k: {"partition-id": k, "state-dir": str(tmp_path / "state")} for k in range(SITES)}
    own[99] = {"partition-id": 99, "state-dir": str(tmp_path / "odd")}
    serve(DirectGrid(own), run_config(settings("fedavg"), tmp_path / "run"))
    (line, *_) = ledger.read(tmp_path / "odd").lines
    assert "partition-id is 99" in line.note["problem"]
    assert line.weights == 0


def test_what_nobody_declared_is_found(tmp_path, monkeypatch, caplog):
    real = nodes.execute

    def execute(own: Any, *args: Any) -> Any:
        result = real(own, *args)
        result.reply.arrays["labels"] = torch.arange(21)
        return result

    monkeypatch.setattr(nodes, "execute", execute)
    own = {0: {"partition-id": 0, "state-dir": str(tmp_path)}}
    grid = DirectGrid(own)
    config = settings("fedavg", partition={"kind": "iid", "clients": 1})
    with pytest.raises(Exception, match="usable"):
        serve(grid, run_config(config, tmp_path / "run"))
    found = ledger.read(tmp_path)
    assert found.problems == ["line 2 has what was not declared: labels"]
    assert "labels" in caplog.text


@pytest.mark.parametrize(
    ("form", "fits"),
    [
        (ArrayForm("float32", (10,)), True),
        (ArrayForm("float32", (10, 2)), False),
        (ArrayForm("int64", (10,)), False),
    ],
)
def test_an_array_of_another_form_was_not_declared(form, fits):
    declared = {"fedrn.output": ArrayForm("float32", ("classes",), "its logits")}
    line = left(arrays={"fedrn.output": form}, declared=declared)
    assert line.undeclared() == ([] if fits else ["fedrn.output"])


def test_no_changed_byte_goes_unseen(kept):
    path = kept / ledger.NAME
    whole = path.read_bytes()
    for place in range(len(whole)):
        for bit in (0x01, 0x08):
            changed = bytearray(whole)
            changed[place] ^= bit
            path.write_bytes(changed)
            assert ledger.read(kept).problems, (place, bit)
    path.write_bytes(whole)
    assert not ledger.read(kept).problems


@pytest.mark.parametrize("gone", [0, 1, 2])
def test_no_removed_line_goes_unseen(gone, kept):
    path = kept / ledger.NAME
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:gone] + lines[gone + 1 :]))
    assert ledger.read(kept).problems
    ledger.append(kept, left(step=9))  # a later line does not hide it
    assert ledger.read(kept).problems


def test_without_its_tip_nobody_knows_the_end(kept):
    (kept / ledger.TIP).unlink()
    (problem,) = ledger.read(kept).problems
    assert "may be missing" in problem
    (kept / ledger.NAME).unlink()
    with pytest.raises(DataError, match="has no ledger"):
        ledger.read(kept)


def test_a_torn_line_harms_no_other(kept, tmp_path):
    """A kill at any byte of a line, before the tip is written; then the node goes on."""
    after = shutil.copytree(kept, tmp_path / "after")
    ledger.append(after, left(step=3))
    new = (after / ledger.NAME).read_bytes()[len((kept / ledger.NAME).read_bytes()) :]
    for cut in range(0, len(new) - 1, 7):
        copy = shutil.copytree(kept, tmp_path / f"cut-{cut}")
        with (copy / ledger.NAME).open("ab") as file:
            file.write(new[:cut])
        found = ledger.read(copy)
        assert (found.problems, len(found.lines), len(found.torn)) == ([], 3, int(cut > 0))
        ledger.append(copy, left(step=4))
        found = ledger.read(copy)
        assert (found.problems, len(found.lines)) == ([], 4)
    with (kept / ledger.NAME).open("ab") as file:  # all of it, and only the tip is missing
        file.write(new)
    assert ledger.read(kept).problems == []


def test_sites_that_share_it_take_turns(tmp_path):
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda n: ledger.append(tmp_path, left(step=n)), range(40)))
    found = ledger.read(tmp_path)
    assert not found.problems
    assert sorted(line.step for line in found.lines) == list(range(40))


def test_nothing_leaves_where_it_cannot_be_written(tmp_path):
    (tmp_path / "odd" / ledger.NAME).mkdir(parents=True)
    state = str(tmp_path / "state")
    own = {k: {"partition-id": k, "state-dir": state} for k in range(SITES)}
    own[1] = {"partition-id": 1, "state-dir": str(tmp_path / "odd")}
    grid = Keeping(own)
    with pytest.raises(Exception, match='site "site-1": it cannot write its ledger'):
        serve(grid, run_config(settings("fedavg"), tmp_path / "run", wait=0.5))
    (reply,) = grid.heard[1]
    note, arrays = wire.read(reply.content)
    assert note.keys() == {"site", "problem"}
    assert "IsADirectoryError (Is a directory)" in note["problem"], "what is wrong there, no path"
    assert str(tmp_path) not in note["problem"]
    assert not arrays


@pytest.mark.parametrize(
    "row", ["5", "[]", "{}", '{"number": 1}', "[" * 5000, '{"a": NaN}', "\x00"]
)
def test_odd_lines_are_named_or_passed_over(row, kept):
    with (kept / ledger.NAME).open("a") as file:
        file.write(row + "\n")
    found = ledger.read(kept)
    assert len(found.lines) == 3
    assert bool(found.problems) != bool(found.torn)
    ledger.append(kept, left())
    assert len(ledger.read(kept).lines) == 4


def test_a_person_can_read_it(kept):
    first = json.loads((kept / ledger.NAME).read_text().splitlines()[0])
    assert list(first)[:3] == ["number", "time", "site"]
