"""Death before the k-th file operation, for every k: resumed, the run is as if nothing had been.

CI tries every fifteenth k of one method; all of them: `pytest -m attack tests/attacks -s`.
"""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from faults import count_changes, go_on, go_on_and_die, start, what_is_wrong
from tally import Tally
from toys import train

METHODS = ["flr", "fedcorr", "feddyn", "coteaching"]
SAMPLE = 15  # every so many


def attack(method: str, tmp_path: Path, first: int, every: int) -> None:
    tally = Tally(f"death before the k-th file operation, {method}")
    total = count_changes(method, tmp_path / "counted")
    whole = train(method, tmp_path / "whole")
    for k in range(first, total + 1, every):
        out, begun = tmp_path / str(k), tmp_path / f"{k}.rounds"
        begun.touch()
        child = start(go_on_and_die, out, method, begun, k)
        child.join()
        assert child.exitcode == -signal.SIGKILL, f"operation {k} of {total} never came"
        if problem := what_is_wrong(go_on(out, method, begun), whole, begun):
            tally.lose(f"operation {k} of {total}: {problem}")
        else:
            tally.survived()
    tally.finish()


def test_a_sample_of_deaths_changes_nothing(tmp_path):
    attack("flr", tmp_path, SAMPLE, SAMPLE)


@pytest.mark.attack
@pytest.mark.parametrize("method", METHODS)
def test_no_death_before_any_operation_changes_anything(method, tmp_path):
    attack(method, tmp_path, 1, 1)
