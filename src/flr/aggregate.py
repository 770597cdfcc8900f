"""Updates -> model: rules that turn the replies of a round into the next weights."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from flr.arrays import Arrays
from flr.contract import Reply
from flr.registry import register


def weighted_average(values: Sequence[Tensor], weights: Sequence[float]) -> Tensor:
    """sum_k w_k / (sum_j w_j) * v_k in float64, in the order given: float sums depend on it."""
    total = float(sum(weights))
    result = torch.zeros(values[0].shape, dtype=torch.float64)
    for value, weight in zip(values, weights, strict=True):
        result += value.to(torch.float64) * (weight / total)
    return result


@register("mean", kind="aggregator", title="Weighted mean")
def mean(replies: list[Reply], prefix: str, previous: Arrays, /) -> Arrays:
    """Mean weighted by the number of samples; integer buffers stay integers (truncated)."""
    weights = [float(r.examples) for r in replies]
    return {
        name: weighted_average([r.arrays[name] for r in replies], weights).to(previous[name].dtype)
        for name in sorted(previous)
        if name.startswith(prefix)
    }
