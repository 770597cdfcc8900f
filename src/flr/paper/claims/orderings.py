"""Every pair of rows that a table of the paper puts in an order, and the order they have here."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from flr.paper.claims.judgement import Claim, Judged, judge
from flr.paper.experiment import Experiment
from flr.paper.runner import ExperimentResults
from flr.report.memorization import KEYS
from flr.report.table import Table


def orderings(results: ExperimentResults) -> list[tuple[Judged, float]]:
    """All pairs of a table, column by column, as if the paper claimed each; none without numbers.

    With each goes the paper's difference, in points.
    """
    experiment = results.experiment
    found = []
    for setting in experiment.settings:
        for one, other in combinations(experiment.rows, 2):
            numbers = [experiment.paper(row, setting) for row in (one, other)]
            if None in numbers:
                continue
            for place, value in enumerate(values(experiment)):
                if lead := numbers[0][place] - numbers[1][place]:
                    more, less = (one, other) if lead > 0 else (other, one)
                    claim = Claim("", more, less, value=value)
                    (judged,) = judge(claim, [setting], results.by_seed)
                    found.append((judged, abs(lead)))
    return found


def values(experiment: Experiment) -> list[str]:
    """What the numbers of a row are in the paper's table, in its order."""
    if experiment.shows == "accuracy-table":
        return [f"accuracy.{experiment.score}"]
    if experiment.shows == "memorization-table":
        sides = [f"memorization.{side}.{key}" for side in ("server", "client") for key in KEYS]
        return [*sides, "accuracy.last"]
    return []


def as_table(pairs: Sequence[tuple[Judged, float]]) -> Table:
    """Every pair, for other programs."""
    heads = "setting", "of", "more in the paper", "than", "paper", "ours", "± 95 %", "n", "verdict"
    rows = []
    for judged, lead in pairs:
        claim, difference = judged.claim, judged.difference
        numbers = (difference.mean, difference.half)
        ours = ("" if value is None else f"{100 * value:.2f}" for value in numbers)
        names = (judged.setting, claim.value, claim.row, claim.than)
        rows.append((*names, f"{lead:.2f}", *ours, str(difference.n), judged.verdict))
    return Table(heads, rows)
