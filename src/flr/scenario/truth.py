"""The clean labels, for reports only: no method, client or aggregator may import this module."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from flr.data.dataset import Dataset, Ragged
from flr.scenario.scenario import Scenario, check_fits


@dataclass(frozen=True, eq=False)
class Truth:
    """True and given labels of every site, side by side."""

    true: Ragged  # int64
    given: Ragged  # int64

    @classmethod
    def of(cls, scenario: Scenario, dataset: Dataset) -> Truth:
        """Looks the true labels up in the data set the scenario was made from."""
        check_fits(scenario, dataset)
        true = dataset.train.y[scenario.index]
        return cls(Ragged(true, scenario.sizes), scenario.given)

    def where(self, mask: Tensor) -> Truth:
        """Of each site, the samples that a mask picks: those that it trains on."""
        return Truth(self.true.where(mask), self.given.where(mask))

    @cached_property
    def realised(self) -> Tensor:
        """Each site's share of wrong labels, float64; not the rate that it drew."""
        return self.true.sums(self.wrong).double() / self.true.sizes

    @cached_property
    def overall(self) -> float:
        """The share of wrong labels of all sites together."""
        return float(self.wrong.double().mean())

    @cached_property
    def wrong(self) -> Tensor:
        """Which labels are wrong, site after site."""
        return self.true.flat != self.given.flat
