"""Death before the k-th file operation in a state-dir, for every k: nothing lost, nothing left.

Nodes and server die together and go on together. CI tries every thirtieth k of one method; all of
them: `pytest -m attack tests/attacks/test_node_operations.py -s`.
"""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from direct_nodes import NODES, ROUNDS, count, go_on, go_on_and_die, states
from faults import start
from tally import Tally
from toys import bits

from flr.flower import ledger
from flr.simulation.api import Run

METHODS = ["flr", "fedcorr"]
SAMPLE = 30  # every so many


def files(folder: Path) -> set[str]:
    """Names in the state-dirs and the run folder; an experiment's name is drawn anew each time."""
    found = set()
    for path in (*states(folder).rglob("*"), *(folder / "run").rglob("*")):
        parts = ["experiment" if len(p) == 16 and p.isalnum() else p for p in path.parts]
        found.add("/".join(parts[len(folder.parts) :]))
    return found


def what_is_wrong(folder: Path, run: Run, undisturbed: Path) -> str:
    problems = [] if bits(run) == bits(Run(undisturbed / "run")) else ["other bits"]
    if [m["round"] for m in run.metrics] != list(range(1, ROUNDS + 1)):
        problems.append("other rounds")
    for number in range(NODES):
        problems += ledger.read(states(folder) / f"{number}").problems
    if other := files(folder) ^ files(undisturbed):
        problems.append(f"other files: {sorted(other)}")
    return ", ".join(problems)


def attack(method: str, tmp_path: Path, first: int, every: int) -> None:
    tally = Tally(f"death before the k-th file operation of nodes, {method}")
    undisturbed = tmp_path / "undisturbed"
    total = count(undisturbed, method)
    for k in range(first, total + 1, every):
        folder = tmp_path / str(k)
        child = start(go_on_and_die, folder, method, k)
        child.join()
        assert child.exitcode == -signal.SIGKILL, f"operation {k} of {total} never came"
        problem = what_is_wrong(folder, go_on(folder, method), undisturbed)
        where = f"operation {k} of {total}: {problem}"
        tally.lose(where) if problem else tally.survived()
    tally.finish()


def test_a_sample_of_deaths_changes_nothing(tmp_path):
    attack("flr", tmp_path, SAMPLE, SAMPLE)


@pytest.mark.attack
@pytest.mark.parametrize("method", METHODS)
def test_no_death_before_any_operation_changes_anything(method, tmp_path):
    attack(method, tmp_path, 1, 1)
