"""The probe of a simulation: besides what any server knows, what was memorized, where.

Predictions meet the true labels here and nowhere else, in the main process.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from flr.arrays import Arrays
from flr.data.dataset import Parts, SiteTable
from flr.probes import Outcome, RoundEnd
from flr.report.diary import SITES, Diary
from flr.report.memorization import Fractions, fractions, mean_fractions
from flr.report.rates import NoiseRates, noise_rates


@dataclass(kw_only=True)
class Recorder(Diary):
    """Measures every round that is due and appends what it saw to the run folder."""

    table: SiteTable
    true: Sequence[Tensor]  # of each site, aligned with the table
    nominal: Sequence[float]  # of each site
    memorization_every: int
    verified: bool = True  # whether `true` is known to be right; else nothing is compared with it

    @cached_property
    def noise(self) -> NoiseRates:
        """The noise of this federation; the summary reports the same numbers."""
        rates = noise_rates(self.table, self.true, self.nominal)
        if self.verified:
            return rates
        return replace(rates, realised=None, site_realised=(None,) * len(self.table))

    def wants_predictions(self, round: int) -> bool:
        """Whether client-side memorization is measured in this round (counted from 1)."""
        return self.verified and self.among_due(round, self.memorization_every)

    def round_end(self, event: RoundEnd) -> None:
        """Compares what clients and server answer with the true labels."""
        found = [(outcome, self._local(outcome)) for outcome in event.outcomes]
        clients = [
            self.client_line(event.round, o) | {"noise": self._rates(o), "memorization": local}
            for o, local in found
        ]
        measured = self.measured(event)
        if self.wants_predictions(event.round):
            # where a client trained in several steps of the round, its last model counts
            last = {outcome.client: local for outcome, local in found if local is not None}
            measured["memorization"] = self._memorization(event.model, last)
        self.write(event, clients, measured)

    def _rates(self, o: Outcome) -> dict[str, float | None]:
        return {
            "nominal": self.noise.site_nominal[o.client],
            "realised": self.noise.site_realised[o.client],
        }

    def _local(self, o: Outcome) -> Fractions | None:
        if o.status != "ok" or o.predictions is None:
            return None
        rows = slice(int(self.table.offset[o.client]), int(self.table.offset[o.client + 1]))
        return fractions(o.predictions.long(), self.true[o.client], self.table.given[rows])

    def _memorization(
        self, model: Arrays, local: dict[int, Fractions]
    ) -> dict[str, dict[str, float | None]]:
        noisy = [found for client, found in local.items() if self.noise.site_realised[client]]
        return {
            "server": self._server(model),
            "client": mean_fractions(local.values()),
            "client_noisy": mean_fractions(noisy),
        }

    def _server(self, model: Arrays) -> Fractions:
        predicted = torch.full((len(self.table.x),), -1)  # no class: samples that no site holds
        predicted[self._held] = self.predict(model, SITES, self._held)
        return fractions(predicted[self.table.index], self._all_true, self.table.given)

    @cached_property
    def _held(self) -> Tensor:
        return torch.bincount(self.table.index).nonzero().flatten()

    @cached_property
    def _all_true(self) -> Tensor:
        return Parts.of(self.true).flat
