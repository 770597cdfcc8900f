"""Classes in unequal shares, drawn from a Dirichlet distribution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from flr.core.errors import ConfigError
from flr.core.registry import register
from flr.data.train_test_split import Indices
from flr.scenario.partitions.common import Alpha, Partition, by_class


@register("dirichlet", kind="partition", title="Dirichlet", paper="Hsu et al., 2019", year=2019)
@dataclass(frozen=True)
class Dirichlet(Partition):
    """Each class is shared among all sites by q_c ~ Dirichlet(alpha), sample by sample.

    A small alpha makes shares more unequal. While a site has fewer than `least` samples, it takes a
    random one from the site that has the most.
    """

    alpha: Alpha = 0.5
    least: Annotated[int, Field(ge=1)] = 1

    def feasible(self, counts: Indices) -> None:
        if self.clients * self.least > counts.sum():
            raise ConfigError(
                f"[partition] {self.clients:,} sites with at least {self.least:,} samples each "
                f"needs {self.clients * self.least:,} samples; the data set has "
                f"{int(counts.sum()):,}. Use fewer sites or a smaller least."
            )

    def assign(
        self, labels: Indices, counts: Indices, rng: np.random.Generator
    ) -> tuple[Indices, list[str]]:
        """Deals class after class, then fills up sites with too few."""
        owner = np.empty(len(labels), dtype=np.int64)
        for samples in by_class(labels, counts):
            q = rng.dirichlet(np.full(self.clients, self.alpha))
            share = rng.multinomial(len(samples), q)
            owner[rng.permutation(samples)] = np.repeat(np.arange(self.clients), share)
        sizes = np.bincount(owner, minlength=self.clients)
        moved = 0
        for site in np.flatnonzero(sizes < self.least).tolist():
            while sizes[site] < self.least:
                largest = int(sizes.argmax())
                owner[rng.choice(np.flatnonzero(owner == largest))] = site
                sizes[largest] -= 1
                sizes[site] += 1
                moved += 1
        note = f"{moved} samples were moved to sites that had fewer than {self.least}."
        return owner, [note] if moved else []
