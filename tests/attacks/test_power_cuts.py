"""A power cut before the k-th file operation: what was not synced is empty, torn or gone.

Resumed, the run has the same bits, and no round is trained again that a checkpoint holds. CI tries
every sixtieth k of two methods; all of them: `pytest -m attack tests/attacks -s`.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from faults import count_changes, go_on, run_until_cut, what_is_wrong
from tally import Tally
from test_every_operation import METHODS
from toys import train

SAMPLE = 60  # every so many


def attack(method: str, tmp_path: Path, first: int, every: int) -> None:
    tally = Tally(f"power cut before the k-th file operation, {method}")
    total = count_changes(method, tmp_path / "counted")
    whole = train(method, tmp_path / "whole")
    for k in range(first, total + 1, every):
        for torn in (False, True):
            out, begun = tmp_path / f"{k}-{torn}", tmp_path / f"{k}-{torn}.rounds"
            begun.touch()
            run_until_cut(method, out, begun, k, torn)
            if problem := what_is_wrong(go_on(out, method, begun), whole, begun):
                tally.lose(f"operation {k} of {total}{', torn' * torn}: {problem}")
            else:
                tally.survived()
    tally.finish()


@pytest.mark.parametrize("method", ["flr", "feddyn"])  # the second has state from the first round
def test_a_sample_of_cuts_changes_nothing(method, tmp_path):
    attack(method, tmp_path, SAMPLE, SAMPLE)


@pytest.mark.attack
@pytest.mark.parametrize("method", METHODS)
def test_no_cut_before_any_operation_changes_anything(method, tmp_path):
    attack(method, tmp_path, 1, 1)
