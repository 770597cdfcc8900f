"""What a simulation can write down of a run besides: how much was memorized, and where.

Predictions meet the true labels here and nowhere else, in the main process.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from flr.core.arrays import Arrays
from flr.core.observers import ClientOutcome, RoundEnd
from flr.data.dataset import Ragged, SiteTable
from flr.report import metrics as measures
from flr.report.memorization import Fractions, fractions, mean_fractions
from flr.report.recorder import SITES, Recorder
from flr.report.summary import NoiseRates, noise_rates


@dataclass(kw_only=True)
class TruthRecorder(Recorder):
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
        clients, local = [], {}
        for outcome in event.outcomes:
            k, found = outcome.client, self._local(outcome)
            rates = {
                "nominal": self.noise.site_nominal[k],
                "realised": self.noise.site_realised[k],
            }
            line = self.client_line(event.round, outcome)
            clients.append(line | {"noise": rates, "memorization": found})
            if found is not None:
                local[k] = found  # of several steps of a round, a client's last model counts
        measured = self.measured(event)
        of_sites = self.verified and "metrics" in measured and measures.asks_sites(self.metrics)
        if of_sites or self.wants_predictions(event.round):
            predicted = self._on_sites(event.model)
        if of_sites:
            measured["metrics"] |= measures.on_sites(self.metrics, self._accuracies(predicted))
        if self.wants_predictions(event.round):
            noisy = [found for client, found in local.items() if self.noise.site_realised[client]]
            measured["memorization"] = {
                "server": fractions(predicted, Ragged.of(self.true).flat, self.table.given.flat),
                "client": mean_fractions(local.values()),
                "client_noisy": mean_fractions(noisy),
            }
        self.write(event, clients, measured)

    def _local(self, o: ClientOutcome) -> Fractions | None:
        if o.status != "ok" or o.predictions is None:
            return None
        given = self.table.given[o.client]
        return fractions(o.predictions.long(), self.true[o.client], given)

    def _on_sites(self, model: Arrays) -> Tensor:
        """What the global model says of all samples, site after site."""
        predicted = torch.full((len(self.table.x),), -1)  # no class: samples that no site holds
        predicted[self._held] = self.predict(model, SITES, self._held)
        return predicted[self.table.samples.flat]

    def _accuracies(self, predicted: Tensor) -> list[float | None]:
        """How much of it is right, at each site."""
        true = Ragged.of(self.true)
        hits, sizes = true.sums((predicted == true.flat).long()), true.sizes
        return [h / n if n else None for h, n in zip(hits.tolist(), sizes.tolist(), strict=True)]

    @cached_property
    def _held(self) -> Tensor:
        return torch.bincount(self.table.samples.flat).nonzero().flatten()
