"""Fixed choices of samples: they depend on the labels only, never on a run's seed."""

from __future__ import annotations

from typing import Any

import numpy as np

from flr.core.seeds import derive

Indices = np.ndarray[Any, np.dtype[np.int64]]


def stratified(labels: Indices) -> tuple[Indices, Indices]:
    """Sample numbers of a training (4/5) and a test part (1/5) with the same mix of classes.

    Every class keeps at least one training sample. Both parts are sorted.
    """
    rank, count = _ranks(labels)
    last = rank == count - 1  # stays in training
    share = (rank + 0.5) / count
    order = np.lexsort((labels, share, last))
    size = min(-(-len(labels) // 5), int((~last).sum()))
    return np.sort(order[size:]), np.sort(order[:size])


def balanced(labels: Indices, size: int) -> Indices:
    """`size` sample numbers, sorted, with classes as equal as can be; larger sizes only add."""
    rank, _ = _ranks(labels)
    return np.sort(np.lexsort((labels, rank))[:size])


def _ranks(labels: Indices) -> tuple[Indices, Indices]:
    """Each sample's position in its class, in a fixed random order, and the size of that class."""
    # RandomState: the one NumPy generator whose numbers are promised to stay the same for ever.
    shuffled = np.random.RandomState(derive(0, "split") % 2**32).permutation(len(labels))
    by_class = shuffled[np.argsort(labels[shuffled], kind="stable")]
    counts = np.bincount(labels)
    start = np.cumsum(counts) - counts
    rank = np.empty(len(labels), dtype=np.int64)
    rank[by_class] = np.arange(len(labels)) - start[labels[by_class]]
    return rank, counts[labels]
