"""Rules that go coordinate by coordinate (Yin et al., ICML 2018): no reply is chosen as a whole."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated

import torch
from annotated_types import Ge, Lt
from torch import Tensor

from flr.core.arrays import Arrays, with_prefix
from flr.core.contract import Reply
from flr.core.registry import register

PAPER = "Yin et al., ICML 2018"


@register("median", kind="aggregator", title="Median", paper=PAPER, year=2018)
def median(
    replies: list[Reply], prefix: str, previous: Arrays, _buffers: frozenset[str] = frozenset(), /
) -> Arrays:
    """Middle value of every coordinate, the mean of the middle two if replies are even in number.

    Every reply counts alike. Float buffers are treated as parameters; integer counters are those
    of the reply with the most samples.
    """
    return by_coordinate(replies, prefix, previous, lambda v: trimmed(v, (len(v) - 1) // 2))


def trims_nothing(asked: int, *, share: float) -> str:
    """Why so many clients a round do not suffice for a share to be cut off; empty if they do."""
    if share == 0 or int(share * asked) > 0:
        return ""
    return (
        f"cuts off a share of {share} at each end, which is no reply at all of the {asked} asked "
        f"in a round. Ask at least {math.ceil(1 / share)} clients ([train] participation), or "
        "raise share."
    )


@register(
    "trimmed-mean",
    kind="aggregator",
    title="Trimmed mean",
    paper=PAPER,
    year=2018,
    check=trims_nothing,
)
def trimmed_mean(
    replies: list[Reply],
    prefix: str,
    previous: Arrays,
    _buffers: frozenset[str] = frozenset(),
    /,
    *,
    share: Annotated[float, Ge(0), Lt(0.5)] = 0.2,
) -> Arrays:
    """Mean of every coordinate without its largest and smallest values.

    Of n replies, int(share * n) are cut off at each end. Every reply counts alike. Float buffers
    are treated as parameters; integer counters are those of the reply with the most samples.
    """
    cut = int(share * len(replies))
    return by_coordinate(replies, prefix, previous, lambda values: trimmed(values, cut))


def trimmed(values: Tensor, cut: int) -> Tensor:
    """Mean over the first axis without the `cut` smallest and largest of every coordinate."""
    ordered = values.sort(dim=0).values
    return ordered[cut : len(values) - cut].mean(0)


def by_coordinate(
    replies: list[Reply], prefix: str, previous: Arrays, middle: Callable[[Tensor], Tensor]
) -> Arrays:
    """A rule on n x ... float64 for all float entries; counters come from the largest reply."""
    largest = max(replies, key=lambda r: r.examples)  # the first of equal ones
    result = {}
    for name, before in with_prefix(previous, prefix).items():
        if before.is_floating_point():
            values = torch.stack([r.arrays[name] for r in replies]).to(torch.float64)
            result[name] = middle(values).to(before.dtype)
        else:
            result[name] = largest.arrays[name].clone()
    return result
