"""Rules that look at how far replies lie from each other: Krum, and the geometric median."""

from __future__ import annotations

from typing import Annotated

import torch
from annotated_types import Ge, Gt, Lt
from torch import Tensor

from flr.aggregate.common import decide, examples, inner_products, require, squared_distances
from flr.core.arrays import Arrays
from flr.core.contract import Reply
from flr.core.registry import register

FAR = 1e12  # between squares of distances

Byzantine = Annotated[int, Ge(0)] | Annotated[float, Ge(0), Lt(0.5)]


def faulty(byzantine: float, replies: int) -> int:
    """How many of so many replies are to be outlived: a number is that, a share is of them."""
    return byzantine if isinstance(byzantine, int) else int(byzantine * replies)


def asks_too_few(asked: int, *, byzantine: float, select: int) -> str:
    """Why Krum cannot keep its promise with so many clients a round; empty if it can."""
    f = faulty(byzantine, asked)
    if asked < 2 * f + 3:
        return (
            f"outlives {f} faulty replies only among {2 * f + 3} or more (2f + 3); {asked} are "
            "asked in a round. Ask more clients ([train] participation) or lower byzantine."
        )
    if select > asked - f:
        return (
            f"selects {select} replies, more than the {asked - f} that are sound (of {asked} asked "
            f"in a round, {f} may be faulty). Use at most select = {asked - f}."
        )
    return ""


@register(
    "krum",
    kind="aggregator",
    title="Krum",
    paper="Blanchard et al., NeurIPS 2017",
    year=2017,
    check=asks_too_few,
)
def krum(
    replies: list[Reply],
    prefix: str,
    previous: Arrays,
    buffers: frozenset[str] = frozenset(),
    /,
    *,
    byzantine: Byzantine = 0.2,
    select: Annotated[int, Ge(1)] = 1,
) -> Arrays:
    """The reply that lies closest to its nearest others, or the weighted mean of several such.

    Equation:
        score(i) = sum over the n - f - 2 nearest j != i of |w_i - w_j|^2

    The `select` lowest scores are kept (1: Krum; more: Multi-Krum). `byzantine` is f, or a share of
    the replies (f = int(share * n)).
    """
    f = faulty(byzantine, len(replies))
    require("krum", replies, f + 3, f"f + 3 for f = {f}: scores count neighbours")
    require("krum", replies, f + select, f"{select} to select beside f = {f}")

    def weigh(names: list[str]) -> list[float]:
        chosen = set(lowest(krum_scores(squared_distances(replies, names), f), select))
        return [n if k in chosen else 0.0 for k, n in enumerate(examples(replies))]

    return decide(replies, prefix, previous, buffers, weigh)


def krum_scores(squared: Tensor, f: int) -> Tensor:
    """n: sum of the n - f - 2 smallest squared distances of each reply to others."""
    n = len(squared)
    others = squared.clone().fill_diagonal_(torch.inf)
    return others.sort(dim=1).values[:, : n - f - 2].sum(1)


def lowest(scores: Tensor, count: int) -> list[int]:
    """The positions of the lowest scores; of equal ones the first."""
    order: list[int] = scores.argsort(stable=True)[:count].tolist()
    return order


@register(
    "geometric-median",
    kind="aggregator",
    title="Geometric median (RFA)",
    paper="Pillutla et al., IEEE TSP 2022",
    year=2022,
)
def geometric_median(
    replies: list[Reply],
    prefix: str,
    previous: Arrays,
    buffers: frozenset[str] = frozenset(),
    /,
    *,
    smoothing: Annotated[float, Gt(0)] = 1e-6,
    iterations: Annotated[int, Ge(1)] = 100,
) -> Arrays:
    """The point with the least sum of weighted distances to all replies, by smoothed Weiszfeld.

    Equation:
        v <- sum_k b_k w_k / sum_k b_k,   b_k = n_k / max(smoothing, |v - w_k|)

    It starts at the weighted mean (of the near replies, where some lie a million times as far off
    as others), and ends when the weights b stand still or after `iterations`.
    """

    def weigh(names: list[str]) -> list[float]:
        squared = squared_distances(replies, names)
        alpha = torch.tensor(examples(replies), dtype=torch.float64)
        centre = centre_if_far(squared)
        if centre is None:
            found = weiszfeld(squared, alpha, smoothing, iterations)
        else:
            products = inner_products(replies, names, centre)
            near = squared[centre] <= FAR * squared[centre].sort().values[len(replies) // 2]
            found = far_weiszfeld(products, alpha, near, smoothing, iterations)
        weights: list[float] = found.tolist()
        return weights

    return decide(replies, prefix, previous, buffers, weigh)


def weiszfeld(squared: Tensor, alpha: Tensor, smoothing: float, iterations: int) -> Tensor:
    """n: the weights, which sum to 1, of the points whose mean is their geometric median.

    Works on squared distances alone: |v - w_j|^2 = sum_k b_k D_jk - 1/2 sum_kl b_k b_l D_kl for
    v = sum_k b_k w_k, so that no point of the space is ever made.
    """
    weights = alpha / alpha.sum()
    for _ in range(iterations):
        to_points = squared @ weights
        distance = (to_points - weights @ to_points / 2).clamp_min(0).sqrt()
        raw = alpha / distance.clamp_min(smoothing)
        moved, weights = weights, raw / raw.sum()
        if (weights - moved).abs().max() <= 1e-12:
            break
    return weights


def centre_if_far(squared: Tensor) -> int | None:
    """Where some reply lies very far off: the one whose nearer half of the others is nearest.

    Float64 has 16 digits. Where the largest square is more than `FAR` times that of such a nearer
    half, sums of squares keep too little of the small ones.
    """
    halves = squared.sort(dim=1).values[:, len(squared) // 2]
    far = bool(squared.max() > FAR * halves.min())
    return int(halves.argmin()) if far else None


def far_weiszfeld(
    products: Tensor, alpha: Tensor, near: Tensor, smoothing: float, iterations: int
) -> Tensor:
    """The same as `weiszfeld` where some replies lie very far off, from inner products.

    |v - w_j|^2 = a' P a for a = b - e_j: a far reply counts in it with its weight, which is as
    small as its distance is large, so that no large numbers have to cancel. It starts at the mean
    of the near ones: each step from the mean of all is only a few times nearer.
    """
    weights, one = alpha * near / alpha[near].sum(), torch.eye(len(alpha), dtype=torch.float64)
    for _ in range(iterations):
        a = weights - one
        distance = ((a @ products) * a).sum(1).clamp_min(0).sqrt()
        raw = alpha / distance.clamp_min(smoothing)
        moved, weights = weights, raw / raw.sum()
        if ((weights - moved).abs() <= 1e-12 * weights).all():
            break
    return weights
