"""Noise that grows from client to client."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from flr.core.errors import ConfigError
from flr.core.registry import register
from flr.data.train_test_split import Indices
from flr.scenario.noises.common import Noise, NoiseContext, Ratio, Selected, Share, flip, pick
from flr.scenario.noises.pair import PairFlip
from flr.scenario.noises.symmetric import Symmetric

_KINDS = {"symmetric": Symmetric(include_true=False), "pair": PairFlip()}


@register("ramp", kind="noise", title="Ramps", paper="Kim et al., CIKM 2022 (FedRN)", year=2022)
@dataclass(frozen=True)
class Ramp(Noise):
    """Rates grow linearly from client to client, from `low` to `high`, in each group of clients.

    `groups` names the noise of each group: "symmetric" (never the true class) or "pair" (y + 1).
    Clients are cut into equal groups by their number; client j of m in its group has the rate
    low + (high - low) j / (m - 1), and exactly int(r n) of its n samples are selected, or each with
    probability r (`ratio = "bernoulli"`).
    """

    low: Share = 0.0
    high: Share = 0.4
    groups: tuple[Literal["symmetric", "pair"], ...] = ("symmetric",)
    ratio: Ratio = "exact"

    def __post_init__(self) -> None:
        if self.low > self.high or not self.groups:
            raise ConfigError(
                f"[noise] ramp: expected low <= high and a group; got low = {self.low}, high = "
                f"{self.high} and {len(self.groups)} groups. Correct them."
            )

    def noisy(self, sites: int, rng: np.random.Generator) -> Indices:
        """All, though the rate of some may be 0."""
        return np.arange(sites)

    def rate(self, site: int, context: NoiseContext, rng: np.random.Generator) -> float:
        """By the client's place in its group; the first groups may have one client more."""
        groups = np.array_split(np.arange(len(context.sites)), len(self.groups))
        (members,) = (group for group in groups if site in group)
        return float(np.linspace(self.low, self.high, len(members))[site - members[0]])

    def choose(
        self, samples: Indices, rate: float, context: NoiseContext, rng: np.random.Generator
    ) -> Indices:
        """Exactly int(r n) samples, or each with probability r."""
        return pick(len(samples), rate, self.ratio, rng)

    def relabel(self, selected: Selected, context: NoiseContext) -> Indices:
        """By the noise of each sample's group."""
        new = context.labels[selected.sample]
        groups = np.array_split(np.arange(len(context.sites)), len(self.groups))
        for kind, members in zip(self.groups, groups, strict=True):
            mine = np.isin(selected.site, members)
            transition = _KINDS[kind].transition(context.classes, None)
            new[mine] = flip(new[mine], transition, selected.draw[mine])
        return new
