"""Means of all replies: by samples, all alike, or with updates cut to a length."""

from __future__ import annotations

import math
from typing import Annotated, Literal

import torch
from annotated_types import Gt
from torch import Tensor

from flr.aggregate.common import decide, examples
from flr.core.arrays import Arrays
from flr.core.contract import Reply
from flr.core.registry import register


@register("mean", kind="aggregator", title="Weighted mean", paper="McMahan et al., AISTATS 2017")
def mean(
    replies: list[Reply], prefix: str, previous: Arrays, buffers: frozenset[str] = frozenset(), /
) -> Arrays:
    """Mean weighted by the number of samples; integer buffers stay integers (truncated)."""
    return decide(replies, prefix, previous, buffers, lambda _: examples(replies))


@register("unweighted", kind="aggregator", title="Unweighted mean")
def unweighted(
    replies: list[Reply], prefix: str, previous: Arrays, buffers: frozenset[str] = frozenset(), /
) -> Arrays:
    """Mean in which every reply counts alike, however many samples stand behind it."""
    return decide(replies, prefix, previous, buffers, lambda _: [1.0] * len(replies))


@register(
    "norm-clip", kind="aggregator", title="Norm clipping", paper="Sun et al., 2019", year=2019
)
def norm_clip(
    replies: list[Reply],
    prefix: str,
    previous: Arrays,
    buffers: frozenset[str] = frozenset(),
    /,
    *,
    bound: Literal["median"] | Annotated[float, Gt(0)] = "median",
) -> Arrays:
    """Weighted mean of updates that are shortened to a largest norm; no reply can pull far.

    Equation:
        w <- w + sum_k n_k / (sum_j n_j) * min(1, bound / |w_k - w|) * (w_k - w)

    The norm is one number for each network, over its trained parameters; buffers are shortened by
    the same factor. `bound` is that norm, or "median": the middle one of the round's norms.
    """

    def weigh(names: list[str]) -> list[float]:
        norms = update_norms(replies, previous, names)
        limit = float(norms.quantile(0.5)) if bound == "median" else float(bound)
        total = sum(examples(replies))
        kept = [
            n / total * (limit / norm if norm > limit else 1.0)
            for n, norm in zip(examples(replies), norms.tolist(), strict=True)
        ]
        return [*kept, max(1.0 - math.fsum(kept), 0.0)]

    return decide(replies, prefix, previous, buffers, weigh)


def update_norms(replies: list[Reply], previous: Arrays, names: list[str]) -> Tensor:
    """n: |w_k - w| in float64 over these entries."""
    squares = torch.zeros(len(replies), dtype=torch.float64)
    for name in names:
        before = previous[name].to(torch.float64)
        for k, reply in enumerate(replies):
            squares[k] += (reply.arrays[name].to(torch.float64) - before).square().sum()
    return squares.sqrt()
