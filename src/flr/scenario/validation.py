"""Which samples of a site are held out of training, to choose a model by: labels stay as given."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from flr.core import seeds


def count(samples: int, share: float) -> int:
    """How many of so many samples a site holds out; it trains on one at least."""
    return max(min(int(share * samples + 0.5), samples - 1), 0)


def drawn(samples: int, share: float, seed: int, site: int) -> Tensor:
    """Which of a site's samples are held out: a mask, uniform and the same for every method."""
    order = torch.randperm(samples, generator=seeds.generator(seed, "validation", site))
    return torch.zeros(samples, dtype=torch.bool).index_fill(0, order[: count(samples, share)], 1)


def held_out(sizes: Sequence[int], share: float, seed: int) -> Tensor:
    """The same for all sites, one after another, as samples lie in a scenario.

    Args:
        sizes: How many samples each site has.
        share: Of them that is held out, `[eval] validation`.
        seed: The scenario's, so that all runs on it hold out the same samples.

    Example:
        >>> mask = held_out(scenario.sizes.tolist(), 0.1, scenario.seed)
        >>> trained_on = scenario.given.where(~mask)
    """
    if not share:
        return torch.zeros(sum(sizes), dtype=torch.bool)
    return torch.cat([drawn(n, share, seed, site) for site, n in enumerate(sizes)])
