"""From an experiment's cells to the places of a comparison."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import fsum

from flr.paper.claims.judgement import BySeed, Claim, Place, last_ten, minus
from flr.study.experiment_results import ExperimentResults

AllResults = Mapping[str, ExperimentResults]  # those of one scale, by name


def compared(results: ExperimentResults, claim: Claim) -> list[Place]:
    """A comparison of two rows, in each of its settings."""
    the_papers = [key for key, setting in results.experiment.settings.items() if not setting.ours]
    found = []
    for setting in claim.settings or the_papers:
        judged, papers = (
            difference(results, claim, setting, value)
            for value in (last_ten(claim.value), claim.value)
        )
        planned = results.planned((claim.row, setting), (claim.than, setting))
        margin = claim.margin if claim.wants == "equal" else None
        where, part = results.where(setting), claim.says.strip()
        found.append(Place(where, part, judged, planned, papers, margin))
    return [place for place in found if place.planned]


def difference(
    results: ExperimentResults, claim: Claim, setting: str, value: str
) -> dict[int, float]:
    """By seed, above 0 where the paper is right; a distance where it says "alike"."""
    rows = (claim.than, claim.row) if claim.wants == "lower" else (claim.row, claim.than)
    ours, theirs = (results.by_seed(row, setting, *value.split(".")) for row in rows)
    return minus(ours, theirs)


def contrast(
    results: ExperimentResults,
    where: str,
    part: str,
    more: Sequence[tuple[str, str]],
    less: Sequence[tuple[str, str]],
) -> Iterator[Place]:
    """Accuracies of some rows in some settings minus those of others; none if not planned."""
    planned = results.planned(*more, *less)
    if planned:
        judged, papers = (summed(results, more, less, which) for which in ("last10", "best"))
        yield Place(where, part, judged, planned, papers)


def summed(
    results: ExperimentResults,
    more: Sequence[tuple[str, str]],
    less: Sequence[tuple[str, str]],
    which: str,
) -> dict[int, float]:
    """By seed, for the seeds that all have; `which` accuracy: best, last or last10."""
    added, taken = ([results.accuracy(*run, which) for run in runs] for runs in (more, less))
    seeds = set.intersection(*(set(found) for found in (*added, *taken)))
    return {
        seed: fsum([*(found[seed] for found in added), *(-found[seed] for found in taken)])
        for seed in sorted(seeds)
    }


def single(where: str, part: str, planned: frozenset[int], value: BySeed) -> Iterator[Place]:
    """A place whose measure is none of accuracies: there is no other of the paper's."""
    if planned:
        yield Place(where, part, value, planned, value)


def present(found: AllResults, *names: str) -> Iterator[ExperimentResults]:
    """Those of these tables and figures that a scale has."""
    return (found[name] for name in names if name in found)


def noisy(results: ExperimentResults) -> Sequence[str]:
    """The settings with wrong labels."""
    return [key for key in results.experiment.settings if key != "clean"]
