"""Every pair of rows that a table of the paper puts in an order, and the order they have here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from statistics import fmean
from typing import NamedTuple

from flr.paper.claims.comparisons import compared
from flr.paper.claims.judgement import Claim, Place
from flr.paper.experiment import published
from flr.report.memorization import KEYS
from flr.report.paired_runs import estimate
from flr.report.table import Table
from flr.study.experiment import Experiment
from flr.study.experiment_results import ExperimentResults


class Pair(NamedTuple):
    """Two rows in one column; the paper's difference is in points."""

    claim: Claim
    setting: str
    paper: float
    place: Place


def orderings(results: ExperimentResults) -> list[Pair]:
    """All pairs of a table, column by column, as if the paper claimed each."""
    experiment = results.experiment
    found = []
    for setting in experiment.settings:
        for one, other in combinations(experiment.rows, 2):
            numbers = [published(experiment, row, setting) for row in (one, other)]
            if None in numbers:
                continue
            for number, value in enumerate(values(experiment)):
                if lead := numbers[0][number] - numbers[1][number]:
                    more, less = (one, other) if lead > 0 else (other, one)
                    claim = Claim("", more, less, value=value, settings=[setting])
                    places = compared(results, claim)
                    found += [Pair(claim, setting, abs(lead), place) for place in places]
    return found


def values(experiment: Experiment) -> list[str]:
    """What the numbers of a row are in the paper's table, in its order."""
    if experiment.shows == "accuracy-table":
        return [f"accuracy.{experiment.score}"]
    if experiment.shows == "memorization-table":
        sides = [f"memorization.{side}.{key}" for side in ("server", "client") for key in KEYS]
        return [*sides, "accuracy.last"]
    return []


def as_table(pairs: Sequence[Pair]) -> Table:
    """Every pair, for other programs."""
    ours = "ours, last 10", "± 95 %", "n", "ours, as the paper"
    rows = []
    for claim, setting, lead, place in pairs:
        found = estimate(place.differences.values())
        numbers = found.mean, found.half, estimate(place.papers.values()).mean
        mean, half, papers = ("" if v is None else f"{100 * v:.2f}" for v in numbers)
        names = (setting, claim.value, claim.row, claim.than)
        rows.append((*names, f"{lead:.2f}", mean, half, str(found.n), papers))
    return Table(("setting", "of", "more in the paper", "than", "paper", *ours), rows)


def agreement(results: ExperimentResults) -> Iterator[tuple[str, str, int, int, int]]:
    """For each column of the paper's table: pairs, those in its order here, and by its measure."""
    columns: dict[tuple[str, str], list[Place]] = {}
    for claim, setting, _, place in orderings(results):
        if place.differences:
            what = claim.value.rpartition(".")[0].replace(".", ", ")
            columns.setdefault((results.where(setting), what), []).append(place)
    for (where, what), places in columns.items():
        same = sum(fmean(place.differences.values()) > 0 for place in places)
        papers = sum(fmean(place.papers.values()) > 0 for place in places)
        yield where, what, len(places), same, papers
