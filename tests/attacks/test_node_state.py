"""Single bits flipped in every file of a node's state-dir; none may pass unseen.

A run on Flower goes on from there, and what left is read. The policy is not among them: people
write it, and nothing vouches for it. All of it: `pytest -m attack --tries 2000 -s`, this file.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from direct import DirectGrid, run_config
from flwr.app import Message
from test_bit_flips import SAMPLE, attack
from toys import StoppedError, bits, settings, train

from flr.client.state import VouchedStateFiles
from flr.core import arrays
from flr.core.errors import DataError
from flr.flower import ledger
from flr.flower.node import ATTEMPT, newest_attempt
from flr.flower.server import serve
from flr.simulation.api import Run

NODES = 3
SMALL: dict[str, Any] = {
    "partition": {"kind": "iid", "clients": NODES},
    "data": {"train": 63, "test": 20},
    "train": {"participation": 1.0},
}


class Stopping(DirectGrid):
    """A server that ends before it hands out the n-th tasks; without a number it goes on."""

    def __init__(self, folder: Path, before: int = 0) -> None:
        states = {k: str(state_of(folder, k)) for k in range(NODES)}
        super().__init__({k: {"partition-id": k, "state-dir": s} for k, s in states.items()})
        self.left = before

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        held = list(messages)
        if held and held[0].metadata.message_type == "train":
            self.left -= 1
            if self.left == 0:
                raise StoppedError
        return super().push_messages(held)


def state_of(folder: Path, node: int) -> Path:
    return folder / f"state-{node}"


def rest_of(folder: Path) -> dict[str, Any]:
    """The run config that goes on with a run."""
    return {"flower.out": str(folder / "run"), "flower.resume": True}


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    """A run that was stopped twice, so that its nodes know of an attempt before; and its nodes."""
    folder = tmp_path_factory.mktemp("federation")
    with pytest.raises(StoppedError):
        serve(Stopping(folder, 2), run_config(settings("flr", **SMALL), folder / "run"))
    with pytest.raises(StoppedError):
        serve(Stopping(folder, 3), rest_of(folder))
    return folder


def resumed(folder: Path) -> str:
    """The model, and what the ledgers said before."""
    lines = [len(ledger.read(state_of(folder, k)).lines) for k in range(NODES)]
    serve(Stopping(folder), rest_of(folder))
    after = [ledger.read(state_of(folder, k)) for k in range(NODES)]
    if problems := [problem for found in after for problem in found.problems]:
        raise DataError("\n".join(problems))  # as the command says it
    before = [found.lines[:n] for found, n in zip(after, lines, strict=True)]
    return repr((bits(Run(folder / "run")), before))


def files_of_nodes(folder: Path) -> list[Path]:
    """All that are not empty, as those are that only lock."""
    found = sorted(path for path in folder.glob("state-*/**/*") if path.is_file())
    return [path.relative_to(folder) for path in found if path.stat().st_size]


def test_every_kind_of_file_is_attacked(federation):
    names = {path.name for path in files_of_nodes(federation)}
    kinds = {ATTEMPT, ledger.NAME, ledger.TIP, "1.safetensors", "1.sha256"}
    assert kinds <= names


def test_a_sample_of_flips_is_never_silent(federation, caplog, tmp_path):
    attack(federation, resumed, files_of_nodes(federation), SAMPLE, caplog, tmp_path)


@pytest.mark.attack
def test_no_flip_is_silent(federation, caplog, tmp_path, tries):
    attack(federation, resumed, files_of_nodes(federation), tries, caplog, tmp_path)


def test_no_bit_of_an_attempt_is_silent(federation, caplog, tmp_path):
    content = next(state_of(federation, 0).glob(f"*/*/{ATTEMPT}")).read_bytes()
    for place in range(8 * len(content)):
        changed = bytearray(content)
        changed[place // 8] ^= 1 << place % 8
        (tmp_path / ATTEMPT).write_bytes(changed)
        caplog.clear()
        assert newest_attempt(tmp_path) == 0
        assert "is damaged" in caplog.text, place
    (tmp_path / ATTEMPT).write_bytes(content)
    assert newest_attempt(tmp_path) == 2


def test_an_attempt_of_an_older_version_counts(caplog, tmp_path):
    (tmp_path / ATTEMPT).write_text("7")
    assert newest_attempt(tmp_path) == 7
    assert "used unchecked" in caplog.text


def test_no_bit_of_a_state_or_its_digest_is_silent(tmp_path):
    whole = train("flr", tmp_path / "whole").folder
    source = next((whole / "checkpoint" / "state").glob("*/*.safetensors"))
    state = {name: value.flatten()[:40] for name, value in arrays.load(source)[0].items()}
    states = VouchedStateFiles(tmp_path)
    states.write(0, 1, state)
    for path in sorted((tmp_path / "0").iterdir()):
        content = path.read_bytes()
        for place in range(8 * len(content)):
            changed = bytearray(content)
            changed[place // 8] ^= 1 << place % 8
            path.write_bytes(changed)
            assert not states.has(0, 1), (path.name, place)
        path.write_bytes(content)
    assert states.has(0, 1)
