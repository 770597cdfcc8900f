"""Sites that are alike."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flr.core.registry import register
from flr.data.train_test_split import Indices
from flr.scenario.partitions.common import Partition


@register("iid", kind="partition", title="Independent and identically distributed")
@dataclass(frozen=True)
class Iid(Partition):
    """Every site gets the same number of samples and, if stratified, the same number of each class.

    What is left over is dealt one by one, so that two sites differ by one sample at most.
    """

    stratified: bool = True

    def assign(
        self, labels: Indices, counts: Indices, rng: np.random.Generator
    ) -> tuple[Indices, list[str]]:
        """Deals class after class (or all at once) round and round a random circle of sites."""
        order = rng.permutation(len(labels))
        if self.stratified:
            order = order[np.argsort(labels[order], kind="stable")]
        owner = np.empty(len(labels), dtype=np.int64)
        owner[order] = rng.permutation(self.clients)[np.arange(len(labels)) % self.clients]
        return owner, []
