"""The rule by which a claim is judged; docs/explanation/verdicts.md has it in words.

It was fixed before the runs that it is for. Numbers are fractions, a point is a hundredth.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev
from typing import Literal, NamedTuple

from scipy import stats

from flr.paper.claims.judgement import Place
from flr.report.paired_runs import Estimate, estimate

Verdict = Literal["holds", "does not hold", "undecided"]

LEVEL = 0.025  # of each direction, as each end of a 95 % interval
POINT = 0.01  # a lead that is surely smaller is none
CHANCE = 0.01  # of so many signs on one side
NOTHING = 1e-9  # differences of rounded numbers that are equal
NOT_RUN = "not run"
SIGNS = "by signs"


@dataclass(frozen=True)
class JudgedPlace:
    """A place with its corrected interval; without one where nothing is judged."""

    place: Place
    mean: float | None
    low: float | None
    high: float | None
    verdict: Verdict


@dataclass(frozen=True)
class Judged:
    """A claim at one scale."""

    verdict: Verdict
    why: str
    effect: Estimate
    places: tuple[JudgedPlace, ...]

    @property
    def run(self) -> bool:
        """Whether there is any run of it."""
        return self.why != NOT_RUN

    @property
    def whole(self) -> bool:
        """Whether all planned runs are there, and more than one seed in each place."""
        return all(place.low is not None for place in self.places)


class Spread(NamedTuple):
    """The mean of differences, its standard error, and how many there are."""

    mean: float
    error: float
    n: int

    def above(self, bound: float) -> float:
        """The one-sided t-test's chance of such a mean, were the true one the bound or less."""
        if self.error < NOTHING:
            return 0.0 if self.mean - bound > NOTHING else 1.0
        return float(stats.t.sf((self.mean - bound) / self.error, self.n - 1))

    def below(self, bound: float) -> float:
        """The same, were the true one the bound or more."""
        return Spread(-self.mean, self.error, self.n).above(-bound)

    def reach(self, level: float) -> float:
        """From the mean to the end of an interval of which so much lies beyond."""
        return float(stats.t.ppf(1 - level, self.n - 1)) * self.error


def judge(places: Sequence[Place]) -> Judged:
    """All places of a claim at one scale."""
    open_ = unready(places)
    if open_:
        means = [estimate(place.differences.values()).mean for place in places]
        shown = [
            JudgedPlace(place, mean, None, None, "undecided")
            for place, mean in zip(places, means, strict=True)
        ]
        return Judged("undecided", open_, replace(effect(places), half=None), tuple(shown))
    found = family(places)
    verdict, why = overall(found)
    return Judged(verdict, why, effect(places), tuple(found))


def by_papers_measure(places: Sequence[Place]) -> Judged | None:
    """The same by the paper's own measure, which decides nothing; None where it is ours."""
    if all(place.papers == place.differences for place in places):
        return None
    return judge([replace(place, differences=place.papers) for place in places])


def unready(places: Sequence[Place]) -> str:
    """Why nothing is judged: a run is missing, or a place has one seed; empty where it can be."""
    if not any(place.differences for place in places):
        return NOT_RUN
    lacking = {seed for place in places for seed in place.planned - place.differences.keys()}
    planned = {seed for place in places for seed in place.planned}
    if lacking:
        return f"{len(planned - lacking)} of {len(planned)} seeds"
    single = sum(len(place.planned) == 1 for place in places)
    if not single:
        return ""
    return "one seed" if single == len(places) else f"one seed in {single} of {len(places)} places"


def family(places: Sequence[Place]) -> list[JudgedPlace]:
    """The places with their corrected intervals: two tests of each, corrected by Holm's steps."""
    spreads = [spread(list(place.differences.values())) for place in places]
    pairs = list(zip(spreads, places, strict=True))
    holds = [chance_if_wrong(found, place.margin) for found, place in pairs]
    fails = [chance_if_right(found, place.margin) for found, place in pairs]
    judged = []
    for number, (upper, lower) in enumerate(zip(holm(holds), holm(fails), strict=True)):
        sure = holds[number] <= upper, fails[number] <= lower
        verdict: Verdict = "holds" if sure[0] else "does not hold" if sure[1] else "undecided"
        found, place = pairs[number]
        low, high = ends(found, upper, lower, None if place.margin is None else verdict)
        judged.append(JudgedPlace(place, found.mean, low, high, verdict))
    return judged


def spread(values: Sequence[float]) -> Spread:
    """Of at least two values."""
    return Spread(fmean(values), stdev(values) / math.sqrt(len(values)), len(values))


def chance_if_wrong(found: Spread, margin: float | None) -> float:
    """Of such differences where the paper is wrong: no lead, or no likeness."""
    if margin is None:
        return found.above(0)
    return max(found.above(-margin), found.below(margin))


def chance_if_right(found: Spread, margin: float | None) -> float:
    """Of such differences where the paper is right by a point, or within the margin."""
    if margin is None:
        return found.below(POINT)
    return min(found.above(margin), found.below(-margin))


def holm(chances: Sequence[float]) -> list[float]:
    """The level at which each place stands; after the first that fails, all stand at its step."""
    levels, stopped = [0.0] * len(chances), 0.0
    for step, number in enumerate(sorted(range(len(chances)), key=chances.__getitem__)):
        levels[number] = stopped or LEVEL / (len(chances) - step)
        if chances[number] > levels[number]:
            stopped = levels[number]
    return levels


def ends(found: Spread, upper: float, lower: float, alike: Verdict | None) -> tuple[float, float]:
    """The corrected interval; of likeness both ends are of the test that gave the verdict."""
    if alike is not None:
        both = {"holds": upper, "does not hold": lower, "undecided": min(upper, lower)}[alike]
        upper = lower = both
    return found.mean - found.reach(upper), found.mean + found.reach(lower)


def overall(places: Sequence[JudgedPlace]) -> tuple[Verdict, str]:
    """The verdict on a claim whose runs are all there, and by what."""
    holding, failing = (
        [found for found in places if found.verdict == verdict]
        for verdict in ("holds", "does not hold")
    )
    each = [found for found in places if not found.place.some]
    enough = [found for found in places if found.place.some]
    if any(found in failing for found in each) or (enough and all(f in failing for f in enough)):
        return "does not hold", told(len(failing), len(places), "fails")
    words = told(len(holding), len(places), "holds")
    if all(f in holding for f in each) and (not enough or any(f in holding for f in enough)):
        return "holds", words
    return pooled([found.place for found in places]) or ("undecided", words)


def told(some: int, places: int, what: str) -> str:
    """In how many places a claim does what."""
    if places == 1:
        return f"{what} in its one place" if some else "its one place is open"
    return f"{what} in {some} of {places} places"


def pooled(places: Iterable[Place]) -> tuple[Verdict, str] | None:
    """By the signs of all seeds in all places, if these are too many on one side for chance."""
    parts: dict[str, list[float]] = {}
    for place in places:
        parts.setdefault(place.part, []).extend(place.leads.values())
    signs = [lead > 0 for leads in parts.values() for lead in leads if abs(lead) > NOTHING]
    right = sum(signs)
    if not signs or stats.binomtest(right, len(signs)).pvalue > CHANCE:
        return None
    paper = 2 * right > len(signs)
    if any(fmean(leads) * (1 if paper else -1) <= 0 for leads in parts.values()):
        return None
    return "holds" if paper else "does not hold", f"{SIGNS}: {right} of {len(signs)} for the paper"


def effect(places: Sequence[Place]) -> Estimate:
    """The mean over places, seed by seed, for the seeds that all places have."""
    return estimate(by_seed([place.leads for place in places]))


def by_seed(leads: Sequence[Mapping[int, float]]) -> list[float]:
    """One mean for each seed."""
    common = set.intersection(*(set(lead) for lead in leads))
    return [fmean(lead[seed] for lead in leads) for seed in sorted(common)]
