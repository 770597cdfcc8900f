"""Few classes at each site."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from flr.core.registry import register
from flr.data.train_test_split import Indices
from flr.scenario.partitions.common import Partition, refuse_few_samples


@register(
    "shards", kind="partition", title="Shards", paper="McMahan et al., AISTATS 2017", year=2017
)
@dataclass(frozen=True)
class Shards(Partition):
    """Samples are sorted by class and cut into equal shards; each site gets so many at random.

    With two shards, most sites have two classes. Shards differ by one sample at most.
    """

    shards: Annotated[int, Field(ge=1)] = 2  # of each site

    def feasible(self, counts: Indices) -> None:
        refuse_few_samples(self.clients * self.shards, int(counts.sum()), "shards")

    def assign(
        self, labels: Indices, counts: Indices, rng: np.random.Generator
    ) -> tuple[Indices, list[str]]:
        order = rng.permutation(len(labels))
        order = order[np.argsort(labels[order], kind="stable")]
        cuts = np.array_split(order, self.clients * self.shards)
        owner = np.empty(len(labels), dtype=np.int64)
        for shard, site in zip(cuts, rng.permutation(len(cuts)) % self.clients, strict=True):
            owner[shard] = site
        return owner, []
