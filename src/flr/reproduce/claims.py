"""What the paper concludes from a table or figure, and whether these runs say the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from flr.report.pairing import Estimate, estimate

Verdict = Literal["holds", "leans that way", "open", "leans against", "contradicted", "not run"]

Look = Callable[[str, str], Mapping[int, Mapping[str, Any]]]  # row, setting -> seed -> summary


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


def judge(claim: Claim, settings: Sequence[str], look: Look) -> list[Judged]:
    """One judgement for each setting of the claim; `settings` are those of the experiment."""
    judged = []
    for setting in claim.settings or settings:
        ours, theirs = look(claim.row, setting), look(claim.than, setting)
        seeds = [seed for seed in ours if seed in theirs]
        pairs = [(_at(ours[seed], claim.value), _at(theirs[seed], claim.value)) for seed in seeds]
        difference = estimate(a - b for a, b in pairs if a is not None and b is not None)
        judged.append(Judged(claim, setting, difference, verdict(claim, difference)))
    return judged


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


def _at(summary: Mapping[str, Any], path: str) -> float | None:
    """None where it was not measured, as where no label is wrong."""
    value: Any = summary
    for key in path.split("."):
        value = value[key]
    return None if value is None else float(value)
