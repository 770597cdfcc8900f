"""Every pair of rows that a table of the paper puts in an order, and the order they have here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from flr.report.memorization import KEYS
from flr.reproduce.claims import Claim, Verdict, judge
from flr.reproduce.experiment import Experiment
from flr.reproduce.grids import Grid
from flr.reproduce.runner import Outcome


@dataclass(frozen=True)
class Pair:
    """Two rows of one column, the one with more in the paper first; differences in points."""

    setting: str
    value: str  # a path in a run's summary
    more: str
    less: str
    paper: float
    ours: float | None
    half: float | None
    n: int
    verdict: Verdict


def orderings(outcome: Outcome) -> list[Pair]:
    """All pairs of a table, column by column; none where the paper has no numbers."""
    experiment = outcome.experiment
    found = []
    for setting in experiment.settings:
        for one, other in combinations(experiment.rows, 2):
            numbers = [experiment.paper(row, setting) for row in (one, other)]
            if None in numbers:
                continue
            for place, value in enumerate(values(experiment)):
                if lead := numbers[0][place] - numbers[1][place]:
                    found.append(_pair(outcome, setting, value, (one, other), lead))
    return found


def values(experiment: Experiment) -> list[str]:
    """What the numbers of a row are in the paper's table, in its order."""
    if experiment.shows == "accuracy-table":
        return [f"accuracy.{experiment.score}"]
    if experiment.shows == "memorization-table":
        sides = [f"memorization.{side}.{key}" for side in ("server", "client") for key in KEYS]
        return [*sides, "accuracy.last"]
    return []


def _pair(outcome: Outcome, setting: str, value: str, rows: tuple[str, str], lead: float) -> Pair:
    more, less = rows if lead > 0 else rows[::-1]
    claim = Claim("", more, less, value=value)
    (judged,) = judge(claim, [setting], outcome.summaries)
    mean, half, n = judged.difference.mean, judged.difference.half, judged.difference.n
    return Pair(
        setting=setting,
        value=value,
        more=more,
        less=less,
        paper=abs(lead),
        ours=None if mean is None else 100 * mean,
        half=None if half is None else 100 * half,
        n=n,
        verdict=judged.verdict,
    )


def as_grid(pairs: Sequence[Pair]) -> Grid:
    """Every pair, for other programs."""
    heads = (
        "setting",
        "of",
        "more in the paper",
        "than",
        "paper",
        "ours",
        "± 95 %",
        "n",
        "verdict",
    )
    rows = []
    for p in pairs:
        points = (f"{p.paper:.2f}", _points(p.ours), _points(p.half))
        rows.append((p.setting, p.value, p.more, p.less, *points, str(p.n), p.verdict))
    return Grid("", heads, tuple(rows), words=4)


def _points(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
