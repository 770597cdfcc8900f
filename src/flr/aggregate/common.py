"""What rules share: networks, distances between replies, and sums of all their entries."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

import torch
from torch import Tensor

from flr.core.arrays import Arrays, with_prefix
from flr.core.contract import MODEL, Aggregate, Reply
from flr.core.errors import RunError


def weighted_average(values: Iterable[Tensor], weights: Sequence[float]) -> Tensor:
    """sum_k w_k / (sum_j w_j) * v_k in float64, in the order given: float sums depend on it.

    Args:
        values: Tensors of one shape; each is read once.
        weights: One for each of them.

    Example:
        >>> import torch
        >>> from flr.plugin import weighted_average
        >>> weighted_average([torch.tensor(1.0), torch.tensor(4.0)], [3, 1]).item()
        1.75
    """
    total, result = float(sum(weights)), torch.zeros((), dtype=torch.float64)
    for value, weight in zip(values, weights, strict=True):
        result = value.to(torch.float64, copy=True).mul_(weight / total).add_(result)
    return result


def knowing(rule: Callable[..., Arrays], buffers: frozenset[str]) -> Aggregate:
    """The rule as methods call it; what is a buffer is known to the server alone."""

    def aggregate(replies: list[Reply], prefix: str, previous: Arrays) -> Arrays:
        return rule(replies, prefix, previous, buffers)

    return aggregate


def networks(arrays: Arrays, prefix: str) -> Iterator[list[str]]:
    """The names under the prefix, network by network; arrays besides the weights are one group."""
    groups: dict[str, list[str]] = {}
    for name in with_prefix(arrays, prefix):
        network = name.split(".")[1] if name.startswith(MODEL) else ""
        groups.setdefault(network, []).append(name)
    yield from groups.values()


def trained(names: Sequence[str], arrays: Arrays, buffers: Collection[str]) -> list[str]:
    """The names whose distances count: float entries that are no buffers."""
    return [n for n in names if n not in buffers and arrays[n].is_floating_point()]


def decide(
    replies: list[Reply],
    prefix: str,
    previous: Arrays,
    buffers: Collection[str],
    weigh: Callable[[list[str]], Sequence[float]],
) -> Arrays:
    """Weighted means where `weigh` sets a network's weights from the names of its parameters.

    A weight more than there are replies is the previous model's own.
    """
    result = {}
    for names in networks(previous, prefix):
        weights = weigh(trained(names, previous, buffers))
        sources = [r.arrays for r in replies]
        sources += [previous] * (len(weights) - len(sources))
        used = [(source, w) for source, w in zip(sources, weights, strict=True) if w > 0]
        entries = (_flat(source, names) for source, _ in used)  # one at a time in memory
        average = weighted_average(entries, [w for _, w in used])
        sizes = [previous[name].numel() for name in names]
        for name, part in zip(names, average.split(sizes), strict=True):
            result[name] = part.view(previous[name].shape).to(previous[name].dtype)
    return result


def _flat(arrays: Arrays, names: Sequence[str]) -> Tensor:
    """Entries one after another: a few long sums instead of many short ones."""
    parts = [arrays[name].flatten() for name in names]
    if len({part.dtype for part in parts}) > 1:  # torch would make one type of them that is none
        parts = [part.to(torch.float64) for part in parts]
    return torch.cat(parts)


def squared_distances(replies: list[Reply], names: Sequence[str]) -> Tensor:
    """n x n in float64: |w_i - w_j|^2 over these entries; differences first: nothing cancels."""
    n = len(replies)
    total = torch.zeros(n, n, dtype=torch.float64)
    for name in names:
        flat = torch.stack([r.arrays[name].flatten() for r in replies]).to(torch.float64)
        for i in range(n - 1):
            row = (flat[i + 1 :] - flat[i]).square().sum(1)
            total[i, i + 1 :] += row
            total[i + 1 :, i] += row
    return total


def inner_products(replies: list[Reply], names: Sequence[str], centre: int) -> Tensor:
    """n x n in float64: (w_i - w_c) . (w_j - w_c) over these entries, for one reply c as centre."""
    n = len(replies)
    total = torch.zeros(n, n, dtype=torch.float64)
    for name in names:
        flat = torch.stack([r.arrays[name].flatten() for r in replies]).to(torch.float64)
        flat -= flat[centre].clone()
        total += flat @ flat.T
    return total


def examples(replies: list[Reply]) -> list[float]:
    """How many samples stand behind each reply."""
    return [float(r.examples) for r in replies]


def require(rule: str, replies: list[Reply], needed: int, why: str) -> None:
    """Stops a run in which too few clients answered for this rule."""
    if len(replies) < needed:
        raise RunError(
            f'aggregate = "{rule}" needs at least {needed} replies in a round ({why}); '
            f"{len(replies)} came. Ask more clients ([train] participation), lower the rule's "
            "settings, or use another rule."
        )
