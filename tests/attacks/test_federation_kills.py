"""`kill -9` of SuperNodes, agents, SuperLink and ServerApp at random moments: the same bits.

What was killed is started again, as a supervisor would, and the run resumed. CI tries a few; all:
`pytest -m attack --federation-kills 50 -s -k agents` (or `mixed`), with this file.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from agents import short_folder
from faults import names_in
from siege import CALM, CONFIG, ROUNDS, Siege
from tally import Tally
from toys import bits

import flr
from flr.flower.check_app import run_config
from flr.flower.local import loopback
from flr.flower.local.agents import Agents
from flr.flower.local.loopback import Loopback
from flr.flower.new_app import write_app
from flr.flower.settings import read, resolve
from flr.simulation.api import Run

SAMPLE = 2
AGENTS, MIXED = (0, 1), (0,)  # who has one: every site, or the first of two


def what_is_wrong(siege: Siege, status: str, out: Path, whole: Run, calm: Run) -> str:
    """How a run that was hit differs from one in process, and from one that nobody has hit."""
    if status != "finished:completed":
        return status
    run, problems = Run(out), siege.wrong_at_sites()
    problems += ["other bits"] if bits(run) != bits(whole) else []
    if [m["round"] for m in run.metrics] != list(range(1, ROUNDS + 1)):
        problems.append("other rounds")
    if other := names_in(out) ^ names_in(calm.folder):
        problems.append(f"other files: {sorted(other)}")
    return ", ".join(problems)


def attack(tmp_path: Path, kills: int, guarded: tuple[int, ...]) -> None:
    tally = Tally("kill -9 in a federation, survived by what was hit")
    app = write_app(tmp_path / "w")
    whole = flr.run(resolve(*read({**run_config(app), **CONFIG})), out=tmp_path / "whole")
    with (
        short_folder() as folder,
        Loopback(tmp_path / "federation") as federation,
        Agents(folder) as agents,
    ):
        siege, number = Siege(federation, agents, app, kills, guarded), 0
        calm = siege.undisturbed(tmp_path / "calm")
        assert not what_is_wrong(siege, "finished:completed", calm.folder, whole, calm)
        tally.say(f"a round takes at most {siege.round:.0f} s; a message has {siege.timeout:.0f} s")
        while siege.left:
            out = tmp_path / f"{number}"
            problem = what_is_wrong(siege, siege.one_run(out), out, whole, calm)
            for hit in siege.hits:
                tally.lose(f"run {number}, {hit}: {problem}") if problem else tally.survived(hit)
            tally.say(f"run {number}: {'; '.join(siege.when)}: {problem or 'the same bits'}")
            number += 1
    tally.finish()


@pytest.fixture(autouse=True)
def calm(monkeypatch):
    monkeypatch.setattr(loopback, "_SWITCHES", {**loopback._SWITCHES, **CALM})


def test_a_sample_of_kills_loses_nothing(tmp_path):
    attack(tmp_path, SAMPLE, MIXED)


@pytest.mark.attack
@pytest.mark.parametrize("guarded", [AGENTS, MIXED], ids=["agents", "mixed"])
def test_no_kill_loses_anything(guarded, tmp_path, request):
    attack(tmp_path, request.config.getoption("--federation-kills"), guarded)
