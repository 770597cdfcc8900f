"""Single bits flipped in every file of a node's state-dir; none may pass unseen.

Each flip is read as a node reads its files when the next task comes, in this process: its policy,
attempt, state and ledger, which gets a line. After some of them the whole federation goes on
besides, and what left is read. The policy is not among them: people write it, and nothing vouches
for it. All of it: `pytest -m attack --tries 2000 -s`, this file.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from direct import DirectGrid, run_config, with_policy
from flwr.app import Context, Message, RecordDict
from test_bit_flips import SAMPLE, attack
from toys import StoppedError, bits, settings, train

from flr.client.state import VouchedStateFiles
from flr.core import arrays, seal
from flr.core.errors import DataError
from flr.flower import consent, ledger, wire
from flr.flower.node import ATTEMPT, SiteTask, newest_attempt, own_states
from flr.flower.run_spec import RunSpec
from flr.flower.server import serve
from flr.flower.site_config import RefusalError, SiteConfig
from flr.flower.site_data import RECORD
from flr.flower.what_left import entry_of
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
        self.not_sent: list[Message] = []

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        held = list(messages)
        if held and held[0].metadata.message_type == "train":
            self.left -= 1
            if self.left == 0:
                self.not_sent = held
                raise StoppedError
        return super().push_messages(held)


def state_of(folder: Path, node: int) -> Path:
    return folder / f"state-{node}"


def rest_of(folder: Path) -> dict[str, Any]:
    """The run config that goes on with a run."""
    return {"flower.out": str(folder / "run"), "flower.resume": True}


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """A run that was stopped twice, so that its nodes know of an attempt before; its next tasks."""
    folder = tmp_path_factory.mktemp("federation")
    with pytest.raises(StoppedError):
        serve(Stopping(folder, 2), run_config(settings("flr", **SMALL), folder / "run"))
    grid = Stopping(folder, 3)
    with pytest.raises(StoppedError):
        serve(grid, rest_of(folder))
    return folder, grid.not_sent


@pytest.fixture(scope="module")
def federation(stopped):
    """Its nodes, and the run."""
    return stopped[0]


@pytest.fixture(scope="module")
def read_by_a_node(stopped):
    """What a node takes from its state-dir when the next task comes, up to the training itself."""
    message = next(one for one in stopped[1] if one.metadata.dst_node_id == 0)
    note, _ = wire.read(message.content)
    run_spec, site_task = RunSpec.from_note(note), SiteTask.of(note)
    asked = site_task.task
    assert asked.version is not None

    def read_by_a_node(home: Path) -> str:
        config = with_policy({"partition-id": 0, "state-dir": str(home)})
        own = SiteConfig.of(Context(1, 0, config, RecordDict(), {}))
        known = len(ledger.read(home).lines)
        try:
            consent.require(own, run_spec, asked)
            states, task = own_states(own, run_spec, site_task)
        except RefusalError as error:
            raise DataError(str(error)) from error  # the server hears it
        assert task.version == asked.version
        state = arrays.pack(states.read(task.client, task.version))
        said = Message(wire.write({"site": own.site, "problem": "no"}), reply_to=message)
        ledger.append(home, entry_of(message, said))
        return repr((seal.sha256(state), whole_lines(home)[:known]))

    return read_by_a_node


def whole_lines(home: Path) -> list[ledger.Line]:
    """Refuses a ledger with which something is wrong, as the command does."""
    found = ledger.read(home)
    if found.problems:
        raise DataError("\n".join(found.problems))
    return found.lines


def goes_on(folder: Path) -> str:
    """The federation's model, and what the ledgers said before."""
    known = [len(ledger.read(state_of(folder, k)).lines) for k in range(NODES)]
    serve(Stopping(folder), rest_of(folder))
    lines = [whole_lines(state_of(folder, k))[:n] for k, n in enumerate(known)]
    return repr((bits(Run(folder / "run")), lines))


def files_of_nodes(folder: Path, node: str = "state-*") -> list[Path]:
    """All that are not empty, as those are that only lock."""
    found = sorted(path for path in folder.glob(f"{node}/**/*") if path.is_file())
    return [path.relative_to(folder) for path in found if path.stat().st_size]


def test_every_kind_of_file_is_attacked(federation):
    names = {path.name for path in files_of_nodes(federation)}
    kinds = {ATTEMPT, ledger.NAME, ledger.TIP, "1.safetensors", "1.sha256"}
    assert kinds <= names


def test_a_sample_of_flips_is_never_silent(federation, read_by_a_node, caplog, tmp_path):
    names = files_of_nodes(federation)
    attack(federation, goes_on, names, SAMPLE // 2, caplog, tmp_path / "a")
    node = state_of(federation, 0)
    attack(node, read_by_a_node, files_of_nodes(node, "."), 10 * SAMPLE, caplog, tmp_path / "b")


def test_what_a_kill_left_half_written_is_cleared_away(federation, read_by_a_node, tmp_path):
    home = Path(shutil.copytree(state_of(federation, 0), tmp_path / "home"))
    (attempt,) = home.glob(f"*/*/{ATTEMPT}")
    beside = [attempt, attempt.with_name(RECORD), home / ledger.TIP]
    half = [path.with_name(f".{path.name}.abcd_123") for path in beside]
    others = [home / ".mine.abcd_123", home / f".{ledger.TIP}.note", home / f"{ledger.TIP}.copy"]
    for path in (*half, *others):
        path.write_text("half")
    read_by_a_node(home)
    assert not any(path.exists() for path in half)
    assert all(path.exists() for path in others)


@pytest.mark.attack
def test_no_flip_is_silent_in_a_federation(federation, caplog, tmp_path, tries):
    attack(federation, goes_on, files_of_nodes(federation), max(1, tries // 50), caplog, tmp_path)


@pytest.mark.attack
def test_no_flip_is_silent_at_a_node(federation, read_by_a_node, caplog, tmp_path, tries):
    node = state_of(federation, 0)
    attack(node, read_by_a_node, files_of_nodes(node, "."), tries, caplog, tmp_path)


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
