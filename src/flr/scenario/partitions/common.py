"""What all partitions share: they give a sample to one site at most, by its true label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from flr.core.errors import ConfigError
from flr.data.train_test_split import Indices

Clients = Annotated[int, Field(ge=1)]
Alpha = Annotated[float, Field(gt=0.0, allow_inf_nan=False)]


@dataclass(frozen=True)
class Partition:
    """A way to deal samples out: a subclass says in `assign` which site each sample goes to.

    Args:
        clients: The number of sites.

    Example:
        >>> import numpy as np
        >>> from flr.scenario.partitions.common import Partition
        >>> class InTurn(Partition):
        ...     def assign(self, labels, counts, rng):
        ...         return np.arange(len(labels)) % self.clients, []
        >>> sites, notes = InTurn(clients=2).assign(np.zeros(4), np.array([4]), None)
        >>> sites.tolist()
        [0, 1, 0, 1]
    """

    clients: Clients = 20

    @property
    def sites(self) -> int | None:
        """How many sites there will be; None where only the data set says it."""
        return self.clients

    def told(self, own: Indices | None, names: tuple[str, ...]) -> Partition:
        """This partition, told which of the named sites each sample has in the data set.

        Most do not ask; a data set that names no sites has None.
        """
        return self

    def feasible(self, counts: Indices) -> None:
        """Refuses, from the number of samples of each class alone, what cannot be dealt out."""
        refuse_few_samples(self.clients, int(counts.sum()))

    def assign(
        self, labels: Indices, counts: Indices, rng: np.random.Generator
    ) -> tuple[Indices, list[str]]:
        """The site of each sample (-1: none), and what there is to say about them.

        `counts` has the number of samples of each class.
        """
        raise NotImplementedError

    def split(
        self, labels: Indices, classes: int, rng: np.random.Generator
    ) -> tuple[list[Indices], list[str]]:
        """Each client's sample numbers, sorted, and what there is to say about them.

        More clients than `sites` means: labels are made wrong at these, then they become one.
        """
        counts = np.bincount(labels, minlength=classes)
        self.feasible(counts)
        owner, notes = self.assign(labels, counts, rng)
        sizes = np.bincount(owner + 1, minlength=self.clients + 1)
        return np.split(np.argsort(owner, kind="stable"), np.cumsum(sizes)[:-1])[1:], notes


def by_class(labels: Indices, counts: Indices) -> list[Indices]:
    """The sample numbers of each class."""
    return np.split(np.argsort(labels, kind="stable"), np.cumsum(counts)[:-1])


def refuse_few_samples(needed: int, samples: int, what: str = "sites") -> None:
    """Refuses to deal fewer samples than there are places with at least one."""
    if samples < needed:
        raise ConfigError(
            f"[partition] {needed:,} {what} with at least one sample each needs {needed:,} "
            f"samples; the data set has {samples:,}. Use fewer sites or more data."
        )
