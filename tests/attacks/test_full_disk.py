"""No room on the disk from the k-th file operation on: said in words, and resumed with room again.

CI tries every fifteenth k; all of them: `pytest -m attack tests/attacks -s`.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from faults import before_each_change, count_changes, full_from, go_on, what_is_wrong
from tally import Tally
from toys import train

from flr.core.errors import FlrError

SAMPLE = 15  # every so many


def attack(tmp_path: Path, first: int, every: int) -> None:
    tally = Tally("full disk from the k-th file operation on")
    total = count_changes("flr", tmp_path / "counted")
    whole = train("flr", tmp_path / "whole")
    for k in range(first, total + 1, every):
        out, begun = tmp_path / str(k), tmp_path / f"{k}.rounds"
        begun.touch()
        try:
            with before_each_change(out, full_from(k)):
                go_on(out, "flr", begun)
        except (FlrError, OSError) as error:  # the command line has words for both
            problem = "" if "No space left" in str(error) else f"it says {error}"
        except Exception as error:  # noqa: BLE001 - whatever it is, a user would see it
            problem = f"traceback {type(error).__name__}: {error}"
        else:
            problem = ""  # what needed room was not needed
        problem = problem or what_is_wrong(go_on(out, "flr", begun), whole, begun)
        tally.lose(f"operation {k} of {total}: {problem}") if problem else tally.survived()
    tally.finish()


def test_a_sample_of_full_disks_changes_nothing(tmp_path):
    attack(tmp_path, SAMPLE, SAMPLE)


@pytest.mark.attack
def test_no_full_disk_changes_anything(tmp_path):
    attack(tmp_path, 1, 1)
