"""Verdicts follow from paired differences and their intervals."""

from __future__ import annotations

import pytest

from flr.paper.claims.judgement import Claim, judge, verdict
from flr.report.paired_runs import estimate


def claim(**changes):
    return Claim(**{"says": "a beats b", "row": "a", "than": "b", "value": "x.y", **changes})


@pytest.mark.parametrize(
    ("differences", "changes", "expected"),
    [
        ([0.05, 0.06, 0.055], {}, "holds"),
        ([0.05, 0.06, 0.055], {"wants": "lower"}, "contradicted"),
        ([-0.05, -0.06, -0.055], {"wants": "lower"}, "holds"),
        ([0.05, -0.04, 0.03], {}, "leans that way"),
        ([0.05, -0.04, -0.03], {}, "leans against"),
        ([0.05], {}, "leans that way"),
        ([-0.05], {}, "leans against"),
        ([0.0], {}, "open"),
        ([], {}, "not run"),
        ([0.05, 0.06, 0.055], {"margin": 0.1}, "contradicted"),
        ([0.001, -0.001, 0.0], {"wants": "equal", "margin": 0.01}, "holds"),
        ([0.05, 0.06, 0.055], {"wants": "equal", "margin": 0.01}, "contradicted"),
        ([0.005], {"wants": "equal", "margin": 0.01}, "leans that way"),
        ([0.02], {"wants": "equal", "margin": 0.01}, "leans against"),
    ],
)
def test_verdicts(differences, changes, expected):
    assert verdict(claim(**changes), estimate(differences)) == expected


def test_runs_are_paired_by_seed_and_setting():
    table = {
        ("a", "s", "x", "y"): {1: 0.5, 2: 0.9},
        ("b", "s", "x", "y"): {1: 0.4, 3: 0.1},
    }

    def by_seed(*place):
        return table.get(place, {})

    first, second = judge(claim(), ["s", "t"], by_seed)
    assert first.setting == "s"
    assert first.difference.mean == pytest.approx(0.1)
    assert first.difference.n == 1
    assert second.verdict == "not run"
