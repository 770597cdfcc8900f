"""Sites that lack classes, and hold unequal shares of the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from flr.core.errors import ConfigError
from flr.core.registry import register
from flr.data.train_test_split import Indices
from flr.scenario.partitions.common import Alpha, Partition, by_class

Matrix = np.ndarray[Any, np.dtype[np.bool_]]


@register(
    "bernoulli-dirichlet",
    kind="partition",
    title="Bernoulli x Dirichlet",
    paper="Xu et al., CVPR 2022 (FedCorr)",
    year=2022,
)
@dataclass(frozen=True)
class BernoulliDirichlet(Partition):
    """Sites lack classes (each is there with probability p) and hold unequal shares of the others.

    Phi_kc ~ Bernoulli(p), given that no site is without a class. The samples of class c go to the
    sites with Phi_kc = 1: one to each, every other one at random with q_c ~ Dirichlet(alpha).
    A small alpha makes shares more unequal. A class that no site drew goes to one random site.
    """

    p: Annotated[float, Field(gt=0.0, le=1.0)] = 0.7
    alpha: Alpha = 10.0

    def feasible(self, counts: Indices) -> None:
        """Exact for p = 1; below that `assign` checks the classes that were really drawn."""
        super().feasible(counts)
        if self.p == 1.0 and counts.min() < self.clients:
            raise ConfigError(
                f"[partition] {self.clients:,} sites x {len(counts):,} classes with at least one "
                f"sample each needs {self.clients * len(counts):,} samples, "
                f"{self.clients:,} of each class; the data set has {int(counts.sum()):,}, and "
                f"{int(counts.min()):,} of class {int(counts.argmin())}. "
                'Use fewer sites, p < 1 or partition = "iid".'
            )

    def assign(
        self, labels: Indices, counts: Indices, rng: np.random.Generator
    ) -> tuple[Indices, list[str]]:
        """Draws who has which class, then deals class after class."""
        phi = nonempty_rows(self.clients, len(counts), self.p, rng)
        notes = _adopt_orphans(phi, rng)
        _refuse_few_of_a_class(phi, counts)
        owner = np.empty(len(labels), dtype=np.int64)
        for c, samples in enumerate(by_class(labels, counts)):
            holders = np.flatnonzero(phi[:, c])
            q = rng.dirichlet(np.full(len(holders), self.alpha))
            share = 1 + rng.multinomial(len(samples) - len(holders), q)
            owner[rng.permutation(samples)] = np.repeat(holders, share)
        return owner, notes


def nonempty_rows(rows: int, columns: int, p: float, rng: np.random.Generator) -> Matrix:
    """Bernoulli(p) rows given that none is empty, drawn without retries.

    The first one of such a row stands at j with probability p (1-p)^j / (1 - (1-p)^columns), a
    truncated geometric distribution; what follows it is free, what precedes it is empty.
    """
    if p == 1.0:
        return np.ones((rows, columns), dtype=np.bool_)
    log_miss = np.log1p(-p)
    some = -np.expm1(columns * log_miss)
    first = np.floor(np.log1p(-rng.random(rows) * some) / log_miss).astype(np.int64)
    first = np.minimum(first, columns - 1)[:, None]  # rounding may reach one too far
    at = np.arange(columns)
    drawn = rng.random((rows, columns)) < p
    return np.asarray((at == first) | ((at > first) & drawn))


def _adopt_orphans(phi: Matrix, rng: np.random.Generator) -> list[str]:
    """Gives each class that no site drew to a random site, in place."""
    notes = []
    for c in np.flatnonzero(~phi.any(axis=0)):
        site = int(rng.integers(len(phi)))
        phi[site, c] = True
        notes.append(f"No site drew class {c}; all of it went to site {site}.")
    return notes


def _refuse_few_of_a_class(phi: Matrix, counts: Indices) -> None:
    holders = phi.sum(axis=0)
    c = int(np.argmax(holders - counts))
    if holders[c] > counts[c]:
        raise ConfigError(
            f"[partition] {int(holders[c]):,} of {len(phi):,} sites drew class {c}, which needs "
            f"{int(holders[c]):,} samples of it, one for each; the data set has "
            f'{int(counts[c]):,}. Use fewer sites, a smaller p or partition = "iid".'
        )
