"""A claim that compares two rows of a table, and the verdict on a paired difference."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from flr.report.paired_runs import Estimate, estimate

Verdict = Literal["holds", "leans that way", "open", "leans against", "contradicted", "not run"]

BySeed = Callable[..., Mapping[int, float]]  # row, setting, *path -> seed -> value


@dataclass(frozen=True)
class Claim:
    """Row `row` has a higher (or lower) `value` than row `than`, in each of these settings.

    `value` is a path in a run's summary. With `margin`, the difference has to exceed it, or, with
    `equal`, to stay within it.
    """

    says: str
    row: str
    than: str
    value: str = "accuracy.last10"
    wants: Literal["higher", "lower", "equal"] = "higher"
    settings: Sequence[str] = ()
    margin: float = 0.0


@dataclass(frozen=True)
class Judged:
    """A claim in one setting: the difference over seeds (paired) and what it says."""

    claim: Claim
    setting: str
    difference: Estimate
    verdict: Verdict


class Line(NamedTuple):
    """What one place says to one part of a claim."""

    where: str
    part: str  # what is compared; a claim may have several parts
    numbers: str
    verdict: Verdict
    seeds: int


def judge(claim: Claim, settings: Sequence[str], by_seed: BySeed) -> list[Judged]:
    """One judgement for each setting of the claim; `settings` are those of the experiment."""
    judged = []
    for setting in claim.settings or settings:
        path = claim.value.split(".")
        ours, theirs = (by_seed(row, setting, *path) for row in (claim.row, claim.than))
        difference = estimate(minus(ours, theirs).values())
        judged.append(Judged(claim, setting, difference, verdict(claim, difference)))
    return judged


def minus(ours: Mapping[int, float], theirs: Mapping[int, float]) -> dict[int, float]:
    """Differences by seed, for the seeds that both have."""
    return {seed: ours[seed] - theirs[seed] for seed in ours if seed in theirs}


def verdict(claim: Claim, difference: Estimate) -> Verdict:
    """ "Holds" and "contradicted" need an interval on one side; a single seed can only lean."""
    if difference.mean is None:
        return "not run"
    half = float("inf") if difference.half is None else difference.half
    if claim.wants == "equal":
        if abs(difference.mean) + half <= claim.margin:
            return "holds"
        if abs(difference.mean) - half > claim.margin:
            return "contradicted"
        return "leans that way" if abs(difference.mean) <= claim.margin else "leans against"
    gain = difference.mean if claim.wants == "higher" else -difference.mean
    beyond = gain - claim.margin
    if beyond == 0:
        return "open"
    if beyond > 0:
        return "holds" if beyond > half else "leans that way"
    return "contradicted" if -beyond > half else "leans against"


def in_words(what: str, difference: Estimate) -> str:
    """A difference as a reader wants it: of what, how large, how sure."""
    if difference.mean is None:
        return "not run"
    half = "" if difference.half is None else f" ± {100 * difference.half:.1f}"
    return f"{what}: {100 * difference.mean:+.1f}{half} points, n = {difference.n}"


def line(where: str, what: str, differences: Iterable[float]) -> Line:
    """As for a claim that wants a difference above 0."""
    found = estimate(differences)
    said = verdict(Claim("", "", ""), found)
    return Line(where, what, in_words(what, found), said, found.n)
