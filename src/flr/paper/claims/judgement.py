"""What a claim compares, and the places where it does: see docs/explanation/verdicts.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

BySeed = Mapping[int, float]


@dataclass(frozen=True)
class Claim:
    """Row `row` has a higher (or lower) `value` than row `than`, in each of these settings.

    `value` is a path in a run's summary, and the paper's own measure. `equal` has a margin.
    """

    says: str
    row: str
    than: str
    value: str = "accuracy.last10"
    wants: Literal["higher", "lower", "equal"] = "higher"
    settings: Sequence[str] = ()
    margin: float = 0.0


@dataclass(frozen=True)
class Place:
    """One comparison in one column of a table.

    Differences are by seed, in fractions, and above 0 where the paper is right; with a margin they
    are distances, and the paper is right within it.
    """

    where: str
    part: str  # what is compared; a claim may have several parts
    differences: BySeed
    planned: frozenset[int]  # the seeds that there have to be
    papers: BySeed  # the same differences by the paper's own measure
    margin: float | None = None
    some: bool = False  # of these places one that holds is enough

    @property
    def leads(self) -> dict[int, float]:
        """Above 0 where the paper is right, whatever it says."""
        if self.margin is None:
            return dict(self.differences)
        return {seed: self.margin - abs(value) for seed, value in self.differences.items()}


def minus(ours: BySeed, theirs: BySeed) -> dict[int, float]:
    """Differences by seed, for the seeds that both have."""
    return {seed: ours[seed] - theirs[seed] for seed in ours if seed in theirs}


def last_ten(value: str) -> str:
    """The same measure as a mean of the last ten rounds, which is what is judged."""
    kind, *path = value.split(".")
    return "accuracy.last10" if kind == "accuracy" else ".".join(("memorization.last10", *path))
