"""What a model did with right and with wrong labels: learned, missed or memorized.

For arg-max predictions on samples with a true label t and a given label g:

    clean (g = t):  correct (pred = t)   wrong (pred != t)
    noisy (g != t): correct (pred = t)   memorized (pred = g)   wrong (neither)

A sample that was picked for noise and drew its own class is clean. Each group sums to 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from torch import Tensor

KEYS = ("clean_correct", "clean_wrong", "noisy_correct", "noisy_wrong", "noisy_memorized")

Fractions = dict[str, float | None]  # None where there is no sample of that kind


def fractions(predicted: Tensor, true: Tensor, given: Tensor) -> Fractions:
    """The five fractions of one model on one set of samples."""
    noisy = given != true
    right = predicted == true
    memorized = noisy & (predicted == given)
    kinds = {
        "clean_correct": ~noisy & right,
        "clean_wrong": ~noisy & ~right,
        "noisy_correct": noisy & right,
        "noisy_wrong": noisy & ~right & ~memorized,
        "noisy_memorized": memorized,
    }
    size = {"clean": int((~noisy).sum()), "noisy": int(noisy.sum())}
    of = {key: size[key.split("_")[0]] for key in KEYS}
    return {key: int(kinds[key].sum()) / of[key] if of[key] else None for key in KEYS}


def mean_fractions(items: Iterable[Fractions]) -> Fractions:
    """The unweighted mean of each fraction over the items that have it."""
    rows = list(items)
    return {key: mean(row[key] for row in rows) for key in KEYS}


def mean(values: Iterable[float | None]) -> float | None:
    """The mean of the values that are there; None, not NaN, when there is none."""
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None
