"""Every pair of rows that a table of the paper puts in an order, and the order they have here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from flr.reproduce.claims import Claim, Verdict, judge
from flr.reproduce.grids import Grid
from flr.reproduce.runner import Outcome


@dataclass(frozen=True)
class Pair:
    """Two rows of one column, the one that is better in the paper first; differences in points."""

    setting: str
    better: str
    worse: str
    paper: float
    ours: float | None
    half: float | None
    n: int
    verdict: Verdict


def orderings(outcome: Outcome) -> list[Pair]:
    """All pairs of an accuracy table, column by column; none where the paper has no numbers."""
    experiment = outcome.experiment
    if experiment.shows != "accuracy-table":
        return []
    found = []
    for setting in experiment.settings:
        for one, other in combinations(experiment.rows, 2):
            numbers = [experiment.paper(row, setting) for row in (one, other)]
            if None in numbers:
                continue
            lead = numbers[0][0] - numbers[1][0]
            if lead == 0:
                continue
            found.append(_pair(outcome, setting, one, other, lead))
    return found


def _pair(outcome: Outcome, setting: str, one: str, other: str, lead: float) -> Pair:
    better, worse = (one, other) if lead > 0 else (other, one)
    claim = Claim("", better, worse, value=f"accuracy.{outcome.experiment.score}")
    (judged,) = judge(claim, [setting], outcome.summaries)
    mean, half, n = judged.difference.mean, judged.difference.half, judged.difference.n
    return Pair(
        setting=setting,
        better=better,
        worse=worse,
        paper=abs(lead),
        ours=None if mean is None else 100 * mean,
        half=None if half is None else 100 * half,
        n=n,
        verdict=judged.verdict,
    )


def as_grid(pairs: Sequence[Pair]) -> Grid:
    """Every pair, for other programs."""
    heads = ("setting", "better in the paper", "than", "paper", "ours", "± 95 %", "n", "verdict")
    rows = []
    for p in pairs:
        points = (f"{p.paper:.2f}", _points(p.ours), _points(p.half))
        rows.append((p.setting, p.better, p.worse, *points, str(p.n), p.verdict))
    return Grid("", heads, tuple(rows), words=3)


def _points(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
