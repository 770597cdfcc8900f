"""What a study says: means with intervals, differences paired by seed, ranks over scenarios."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from scipy import stats

from flr.core.errors import ConfigError
from flr.report.paired_runs import Estimate, estimate
from flr.study.experiment_results import ExperimentResults
from flr.study.results import Cell


@dataclass(frozen=True)
class Rank:
    """A row's place among all rows, over the scenarios on which all of them were run."""

    row: str
    rank: Estimate  # 1 is the best; equal ones share the mean of their places
    first: int  # on how many scenarios no other row is better


def path_of(score: str) -> tuple[str, ...]:
    """Where a score stands in a summary: "last10" is an accuracy, others have dots."""
    return tuple(score.split(".")) if "." in score else ("accuracy", score)


def scored(results: ExperimentResults, row: str, setting: str) -> dict[int, float]:
    """The score of one row in one setting, by seed."""
    path = path_of(results.experiment.score)
    try:
        return results.by_seed(row, setting, *path)
    except (KeyError, TypeError):
        known = results.at(row, setting).values()
        accuracies = sorted({key for cell in known for key in cell.summary["accuracy"]})
        raise ConfigError(
            f"Expected a number of summary.json as score; {'.'.join(path)} is none. Use one of "
            f"{', '.join(accuracies)}, or a path such as memorization.client.noisy_memorized."
        ) from None


def mean(results: ExperimentResults, row: str, setting: str) -> Estimate:
    """Over the seeds that are there."""
    return estimate(scored(results, row, setting).values())


def difference(results: ExperimentResults, row: str, setting: str) -> Estimate:
    """A row's score minus that of the row of reference, seed by seed on the same scenario."""
    reference = results.experiment.document["reference"]
    ours, theirs = (results.at(each, setting) for each in (row, reference))
    same = {s for s in ours if s in theirs and _scenario(ours[s]) == _scenario(theirs[s])}
    mine, other = (scored(results, each, setting) for each in (row, reference))
    return estimate(mine[s] - other[s] for s in sorted(same) if s in mine and s in other)


def best(results: ExperimentResults, setting: str) -> frozenset[str]:
    """The rows with the best mean of a setting, where there is something to choose from."""
    sign = sign_of(results)
    means = {row: mean(results, row, setting).mean for row in results.experiment.rows}
    known = {row: sign * value for row, value in means.items() if value is not None}
    if len(known) < 2:
        return frozenset()
    return frozenset(row for row, value in known.items() if value == max(known.values()))


def ranks(results: ExperimentResults) -> list[Rank]:
    """All rows that are run everywhere, the best first; none where no scenario has them all."""
    rows = [row.key for row in results.experiment.rows.values() if not row.only]
    units = [scores for scores in _units(results, rows) if len(scores) == len(rows)]
    if len(rows) < 2 or not units:
        return []
    places = [stats.rankdata([-sign_of(results) * unit[row] for row in rows]) for unit in units]
    found = []
    for number, row in enumerate(rows):
        own = [float(place[number]) for place in places]
        first = sum(place[number] == min(place) for place in places)
        found.append(Rank(row, estimate(own), first))
    return sorted(found, key=lambda each: each.rank.mean or 0.0)


def sign_of(results: ExperimentResults) -> int:
    """1 where more is better."""
    return -1 if results.experiment.document.get("better") == "lower" else 1


def _units(results: ExperimentResults, rows: list[str]) -> Iterator[Mapping[str, float]]:
    """The scores of all rows on one scenario after the other."""
    for setting in results.experiment.settings:
        by_row = {row: scored(results, row, setting) for row in rows}
        for seed in results.seeds:
            yield {row: found[seed] for row, found in by_row.items() if seed in found}


def _scenario(cell: Cell) -> str:
    return str(cell.summary["scenario"])
