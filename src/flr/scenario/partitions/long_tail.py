"""Few samples of some classes anywhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from flr.core.registry import register
from flr.data.train_test_split import Indices
from flr.scenario.partitions.common import Alpha, Partition, by_class
from flr.scenario.partitions.dirichlet import Dirichlet
from flr.scenario.partitions.iid import Iid


@register(
    "long-tail", kind="partition", title="Long tail", paper="Cui et al., CVPR 2019", year=2019
)
@dataclass(frozen=True)
class LongTail(Partition):
    """Class sizes decay exponentially over the classes; what is too many is left out everywhere.

    Equation:
        n_c = int(n_max / imbalance^(c / (C - 1))), from 1 to what class c has

    `imbalance` is the first class's size over the last one's. What is left is dealt out as by
    "iid", or as by "dirichlet" with `alpha`.
    """

    imbalance: Annotated[float, Field(ge=1.0, allow_inf_nan=False)] = 10.0
    alpha: Alpha | None = None

    def feasible(self, counts: Indices) -> None:
        """Needs a sample for each site among those that are left."""
        super().feasible(self.tail(counts))

    def tail(self, counts: Indices) -> Indices:
        """How many samples of each class are left."""
        place = np.arange(len(counts)) / max(len(counts) - 1, 1)
        # the summand mends 0.333... * 30 = 9.999...
        wanted = (counts.max() * self.imbalance**-place + 1e-9).astype(np.int64)
        return np.asarray(np.minimum(np.maximum(wanted, 1), counts))

    def assign(
        self, labels: Indices, counts: Indices, rng: np.random.Generator
    ) -> tuple[Indices, list[str]]:
        left = self.tail(counts)
        pairs = zip(by_class(labels, counts), left, strict=True)
        kept = np.sort(np.concatenate([rng.permutation(samples)[:n] for samples, n in pairs]))
        inner = Iid(self.clients) if self.alpha is None else Dirichlet(self.clients, self.alpha)
        owner = np.full(len(labels), -1)
        owner[kept], notes = inner.assign(labels[kept], left, rng)
        out = len(labels) - len(kept)
        return owner, [
            f"The long tail leaves out {out:,} of {len(labels):,} samples.",
            *notes,
        ]
