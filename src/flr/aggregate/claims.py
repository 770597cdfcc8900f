"""How many samples of each site count: what sites claim of themselves, nobody can check."""

from __future__ import annotations

from collections.abc import Sequence

PARTS = 3  # no site counts for more than one of so many parts of all samples


def capped(examples: Sequence[int]) -> tuple[int, ...]:
    """The numbers, the largest ones lowered until none is more than its part of their sum.

    One site that claims everything then cannot own a weighted mean, nor outvote a weighted median.
    Among as few sites as there are parts one of them always has more; there numbers stay.
    """
    if len(examples) <= PARTS:
        return tuple(examples)
    ordered = sorted(examples, reverse=True)
    for lowered in range(PARTS):
        limit = sum(ordered[lowered:]) // (PARTS - lowered)
        if ordered[lowered] <= limit:
            break
    return tuple(min(n, max(limit, 1)) for n in examples)
