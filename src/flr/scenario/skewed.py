"""Partitions with few classes at a site, or with few samples of a class anywhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from flr.errors import ConfigError
from flr.registry import register
from flr.scenario.partition import Clients, Iid, Indices, by_owner, refuse_few_samples

Alpha = Annotated[float, Field(gt=0.0, allow_inf_nan=False)]


@register("dirichlet", kind="partition", title="Dirichlet", paper="Hsu et al., 2019", year=2019)
@dataclass(frozen=True)
class Dirichlet:
    """Each class is shared among all sites by q_c ~ Dirichlet(alpha), sample by sample.

    A small alpha makes shares more unequal. While a site has fewer than `least` samples, it takes a
    random one from the site that has the most.
    """

    clients: Clients = 20
    alpha: Alpha = 0.5
    least: Annotated[int, Field(ge=1)] = 1

    @property
    def sites(self) -> int:
        """One for each client."""
        return self.clients

    def feasible(self, counts: Indices) -> None:
        """Needs the least number for each site."""
        if self.clients * self.least > counts.sum():
            raise ConfigError(
                f"[partition] {self.clients:,} sites with at least {self.least:,} samples each "
                f"needs {self.clients * self.least:,} samples; the data set has "
                f"{int(counts.sum()):,}. Use fewer sites or a smaller least."
            )

    def split(
        self, labels: Indices, classes: int, rng: np.random.Generator
    ) -> tuple[list[Indices], list[str]]:
        """Deals class after class, then fills up sites with too few."""
        counts = np.bincount(labels, minlength=classes)
        self.feasible(counts)
        owner = np.empty(len(labels), dtype=np.int64)
        by_class = np.split(np.argsort(labels, kind="stable"), np.cumsum(counts)[:-1])
        for samples in by_class:
            q = rng.dirichlet(np.full(self.clients, self.alpha))
            share = rng.multinomial(len(samples), q)
            owner[rng.permutation(samples)] = np.repeat(np.arange(self.clients), share)
        moved = _fill_up(owner, self.clients, self.least, rng)
        note = f"{moved} samples were moved to sites that had fewer than {self.least}."
        return by_owner(owner, self.clients), [note] if moved else []


@register(
    "shards", kind="partition", title="Shards", paper="McMahan et al., AISTATS 2017", year=2017
)
@dataclass(frozen=True)
class Shards:
    """Samples are sorted by class and cut into equal shards; each site gets so many at random.

    With two shards, most sites have two classes. Shards differ by one sample at most.
    """

    clients: Clients = 20
    shards: Annotated[int, Field(ge=1)] = 2  # of each site

    @property
    def sites(self) -> int:
        """One for each client."""
        return self.clients

    def feasible(self, counts: Indices) -> None:
        """Needs a sample for each shard."""
        refuse_few_samples(self.clients * self.shards, int(counts.sum()), "shards")

    def split(
        self, labels: Indices, classes: int, rng: np.random.Generator
    ) -> tuple[list[Indices], list[str]]:
        """Within a class, samples are in random order."""
        self.feasible(np.bincount(labels, minlength=classes))
        order = rng.permutation(len(labels))
        order = order[np.argsort(labels[order], kind="stable")]
        cuts = np.array_split(order, self.clients * self.shards)
        owner = np.empty(len(labels), dtype=np.int64)
        for shard, site in zip(cuts, rng.permutation(len(cuts)) % self.clients, strict=True):
            owner[shard] = site
        return by_owner(owner, self.clients), []


@register(
    "long-tail", kind="partition", title="Long tail", paper="Cui et al., CVPR 2019", year=2019
)
@dataclass(frozen=True)
class LongTail:
    """Class sizes decay exponentially over the classes; what is too many is left out everywhere.

    Equation:
        n_c = int(n_max / imbalance^(c / (C - 1))), from 1 to what class c has

    `imbalance` is the first class's size over the last one's. What is left is dealt out as by
    "iid", or as by "dirichlet" with `alpha`.
    """

    clients: Clients = 20
    imbalance: Annotated[float, Field(ge=1.0, allow_inf_nan=False)] = 10.0
    alpha: Alpha | None = None

    @property
    def sites(self) -> int:
        """One for each client."""
        return self.clients

    def feasible(self, counts: Indices) -> None:
        """Needs a sample for each site among those that are left."""
        refuse_few_samples(self.clients, int(self.tail(counts).sum()), "sites")

    def tail(self, counts: Indices) -> Indices:
        """How many samples of each class are left."""
        place = np.arange(len(counts)) / max(len(counts) - 1, 1)
        # the summand mends 0.333... * 30 = 9.999...
        wanted = (counts.max() * self.imbalance**-place + 1e-9).astype(np.int64)
        return np.asarray(np.minimum(np.maximum(wanted, 1), counts))

    def split(
        self, labels: Indices, classes: int, rng: np.random.Generator
    ) -> tuple[list[Indices], list[str]]:
        """Leaves samples out at random, then deals."""
        counts = np.bincount(labels, minlength=classes)
        self.feasible(counts)
        left = self.tail(counts)
        by_class = np.split(np.argsort(labels, kind="stable"), np.cumsum(counts)[:-1])
        kept = np.sort(
            np.concatenate([rng.permutation(s)[:n] for s, n in zip(by_class, left, strict=True)])
        )
        inner = Iid(self.clients) if self.alpha is None else Dirichlet(self.clients, self.alpha)
        parts, notes = inner.split(labels[kept], classes, rng)
        out = len(labels) - len(kept)
        notes = [f"The long tail leaves out {out:,} of {len(labels):,} samples.", *notes]
        return [kept[part] for part in parts], notes


def _fill_up(owner: Indices, sites: int, least: int, rng: np.random.Generator) -> int:
    """Moves samples from the largest site to those with too few, in place; says how many."""
    sizes = np.bincount(owner, minlength=sites)
    moved = 0
    for site in np.flatnonzero(sizes < least).tolist():
        while sizes[site] < least:
            largest = int(sizes.argmax())
            owner[rng.choice(np.flatnonzero(owner == largest))] = site
            sizes[largest] -= 1
            sizes[site] += 1
            moved += 1
    return moved
