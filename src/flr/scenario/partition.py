"""Who holds which samples: partitions give a sample to one site at most, by its true label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Protocol

import numpy as np
from pydantic import Field

from flr.errors import ConfigError
from flr.registry import register

Indices = np.ndarray[Any, np.dtype[np.int64]]
Matrix = np.ndarray[Any, np.dtype[np.bool_]]

Clients = Annotated[int, Field(ge=1)]


class Partition(Protocol):
    """A way to deal samples out."""

    @property
    def sites(self) -> int:
        """How many sites there will be."""

    def feasible(self, counts: Indices) -> None:
        """Refuses, from the number of samples of each class alone, what cannot be dealt out."""

    def split(
        self, labels: Indices, classes: int, rng: np.random.Generator
    ) -> tuple[list[Indices], list[str]]:
        """Each site's sample numbers, sorted, and what there is to say about them.

        More sites than `sites` means: labels are made wrong at these, then they become one.
        """


@register("iid", kind="partition", title="Independent and identically distributed")
@dataclass(frozen=True)
class Iid:
    """Every site gets the same number of samples and, if stratified, the same number of each class.

    What is left over is dealt one by one, so that two sites differ by one sample at most.
    """

    clients: Clients = 20
    stratified: bool = True

    @property
    def sites(self) -> int:
        """One for each client."""
        return self.clients

    def feasible(self, counts: Indices) -> None:
        """Needs a sample for each site."""
        refuse_few_samples(self.clients, int(counts.sum()))

    def split(
        self, labels: Indices, classes: int, rng: np.random.Generator
    ) -> tuple[list[Indices], list[str]]:
        """Deals class after class (or all at once) round and round a random circle of sites."""
        self.feasible(np.bincount(labels, minlength=classes))
        order = rng.permutation(len(labels))
        if self.stratified:
            order = order[np.argsort(labels[order], kind="stable")]
        owner = np.empty(len(labels), dtype=np.int64)
        owner[order] = rng.permutation(self.clients)[np.arange(len(labels)) % self.clients]
        return by_owner(owner, self.clients), []


@register(
    "bernoulli-dirichlet",
    kind="partition",
    title="Bernoulli x Dirichlet",
    paper="Xu et al., CVPR 2022 (FedCorr)",
    year=2022,
)
@dataclass(frozen=True)
class BernoulliDirichlet:
    """Sites lack classes (each is there with probability p) and hold unequal shares of the others.

    Phi_kc ~ Bernoulli(p), given that no site is without a class. The samples of class c go to the
    sites with Phi_kc = 1: one to each, every other one at random with q_c ~ Dirichlet(alpha).
    A small alpha makes shares more unequal. A class that no site drew goes to one random site.
    """

    clients: Clients = 20
    p: Annotated[float, Field(gt=0.0, le=1.0)] = 0.7
    alpha: Annotated[float, Field(gt=0.0, allow_inf_nan=False)] = 10.0

    @property
    def sites(self) -> int:
        """One for each client."""
        return self.clients

    def feasible(self, counts: Indices) -> None:
        """Exact for p = 1; below that `split` checks the classes that were really drawn."""
        refuse_few_samples(self.clients, int(counts.sum()))
        if self.p == 1.0 and counts.min() < self.clients:
            total = int(counts.sum())
            raise ConfigError(
                f"[partition] {self.clients:,} sites x {len(counts):,} classes with at least one "
                f"sample each needs {self.clients * len(counts):,} samples, "
                f"{self.clients:,} of each class; the data set has {total:,}, and "
                f"{int(counts.min()):,} of class {int(counts.argmin())}. "
                'Use fewer sites, p < 1 or partition = "iid".'
            )

    def split(
        self, labels: Indices, classes: int, rng: np.random.Generator
    ) -> tuple[list[Indices], list[str]]:
        """Draws who has which class, then deals class after class."""
        counts = np.bincount(labels, minlength=classes)
        self.feasible(counts)
        phi = _nonempty_rows(self.clients, classes, self.p, rng)
        notes = _adopt_orphans(phi, rng)
        _refuse_few_of_a_class(phi, counts)
        owner = np.empty(len(labels), dtype=np.int64)
        by_class = np.split(np.argsort(labels, kind="stable"), np.cumsum(counts)[:-1])
        for c, samples in enumerate(by_class):
            holders = np.flatnonzero(phi[:, c])
            q = rng.dirichlet(np.full(len(holders), self.alpha))
            share = 1 + rng.multinomial(len(samples) - len(holders), q)
            owner[rng.permutation(samples)] = np.repeat(holders, share)
        return by_owner(owner, self.clients), notes


@register("central", kind="partition", title="One site")
@dataclass(frozen=True)
class Central:
    """One site holds everything: training as if there were no federation.

    Labels are made wrong as if `clients` i.i.d. sites held the samples, then all are pooled: for
    the same seed these are the labels of that federation.
    """

    clients: Clients = 1
    stratified: bool = True

    @property
    def sites(self) -> int:
        """Always one."""
        return 1

    def feasible(self, counts: Indices) -> None:
        """As many samples as sites before they are pooled."""
        refuse_few_samples(self.clients, int(counts.sum()))

    def split(
        self, labels: Indices, classes: int, rng: np.random.Generator
    ) -> tuple[list[Indices], list[str]]:
        """The sites whose labels are made wrong, before they are pooled."""
        return Iid(self.clients, self.stratified).split(labels, classes, rng)


def _nonempty_rows(rows: int, columns: int, p: float, rng: np.random.Generator) -> Matrix:
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


def refuse_few_samples(needed: int, samples: int, what: str = "sites") -> None:
    """Refuses to deal fewer samples than there are places with at least one."""
    if samples < needed:
        raise ConfigError(
            f"[partition] {needed:,} {what} with at least one sample each needs {needed:,} "
            f"samples; the data set has {samples:,}. Use fewer sites or more data."
        )


def _refuse_few_of_a_class(phi: Matrix, counts: Indices) -> None:
    holders = phi.sum(axis=0)
    c = int(np.argmax(holders - counts))
    if holders[c] > counts[c]:
        raise ConfigError(
            f"[partition] {int(holders[c]):,} of {len(phi):,} sites drew class {c}, which needs "
            f"{int(holders[c]):,} samples of it, one for each; the data set has "
            f'{int(counts[c]):,}. Use fewer sites, a smaller p or partition = "iid".'
        )


def by_owner(owner: Indices, sites: int) -> list[Indices]:
    """Each site's samples, from each sample's site."""
    ends = np.cumsum(np.bincount(owner, minlength=sites))[:-1]
    return np.split(np.argsort(owner, kind="stable"), ends)
