"""The probe that writes a run down: one line per round and one per client and round.

Predictions meet the true labels here and nowhere else, in the main process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from flr.arrays import Arrays
from flr.data.dataset import SiteTable
from flr.data.lazy import Inputs, Pictures
from flr.probes import Outcome, RoundEnd
from flr.report import lines
from flr.report.memorization import Fractions, fractions, mean_fractions
from flr.report.rates import NoiseRates, noise_rates
from flr.trackers import Tracker

METRICS = "metrics.jsonl"
CLIENTS = "clients.jsonl"
LAST = 10  # the last rounds are always measured: the mean over them is what is compared

_BATCH = 1000
_DECODED = 100  # pictures from disk at a time

Predict = Callable[[Arrays, Tensor], Tensor]  # model, normalised inputs -> class numbers
Views = Callable[[Arrays, Inputs], dict[str, Tensor]]  # the same by each network and by all


@dataclass
class Recorder:
    """Measures every round that is due and appends what it saw to the run folder."""

    folder: Path
    predict: Predict
    test_x: Inputs  # normalised
    test_y: Tensor
    classes: tuple[str, ...]
    table: SiteTable
    true: Sequence[Tensor]  # of each site, aligned with the table
    nominal: Sequence[float]  # of each site
    rounds: int
    every: int
    memorization_every: int
    trackers: Sequence[Tracker] = ()
    on_round: Callable[[dict[str, Any]], None] | None = None
    views: Views | None = None  # where a method trains several networks
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
        due = round % self.memorization_every == 0 or self._last(round)
        return self.verified and due

    def round_end(self, event: RoundEnd) -> None:
        """Writes the clients first: a line of metrics says that the round is complete."""
        found = [(outcome, self._local(outcome)) for outcome in event.outcomes]
        clients = [self._client_line(event.round, outcome, local) for outcome, local in found]
        line = self._round_line(event)
        if event.round == 1 or event.round % self.every == 0 or self._last(event.round):
            line |= self._accuracy(event.model)
        if self.wants_predictions(event.round):
            # where a client trained in several steps of the round, its last model counts
            last = {outcome.client: local for outcome, local in found if local is not None}
            line["memorization"] = self._memorization(event.model, last)

        self.folder.mkdir(parents=True, exist_ok=True)
        lines.append(self.folder / CLIENTS, clients)
        lines.append(self.folder / METRICS, [line])
        values = scalars(line)
        for tracker in self.trackers:
            tracker.log(event.round, values)
        if self.on_round is not None:
            self.on_round(line)

    def close(self) -> None:
        """Lets the trackers finish their files."""
        for tracker in self.trackers:
            tracker.close()

    def _last(self, number: int) -> bool:
        return number > self.rounds - LAST

    def _round_line(self, event: RoundEnd) -> dict[str, Any]:
        by_status: dict[str, list[Outcome]] = {"ok": [], "dropped": [], "refused": []}
        for outcome in event.outcomes:
            by_status[outcome.status].append(outcome)
        return {
            "round": event.round,
            "seconds": event.seconds,
            # a round may have many steps, and a client a part in several of them
            "participants": sorted({o.client for o in by_status["ok"]}),
            "dropped": [o.client for o in by_status["dropped"]],
            "refused": [{"client": o.client, "reason": o.reason} for o in by_status["refused"]],
            "bytes_up": sum(o.bytes_up for o in event.outcomes),
            "bytes_down": sum(o.bytes_down for o in event.outcomes),
        }

    def _client_line(self, number: int, o: Outcome, local: Fractions | None) -> dict[str, Any]:
        return {
            "round": number,
            "client": o.client,
            "status": o.status,
            "reason": o.reason,
            "examples": o.examples,
            "seconds": o.seconds,
            "bytes_up": o.bytes_up,
            "bytes_down": o.bytes_down,
            "noise": {
                "nominal": self.noise.site_nominal[o.client],
                "realised": self.noise.site_realised[o.client],
            },
            "memorization": local,
        }

    def _accuracy(self, model: Arrays) -> dict[str, Any]:
        predicted = self._predict(model, self.test_x, torch.arange(len(self.test_x)))
        hits, n = int((predicted == self.test_y).sum()), len(self.test_y)
        each = per_class_accuracy(predicted, self.test_y, len(self.classes))
        line: dict[str, Any] = {
            "accuracy": hits / n if n else None,
            "accuracy_per_class": dict(zip(self.classes, each, strict=True)),
        }
        if self.views is not None and n:
            shown = self.views(model, self.test_x).items()
            line["accuracy_networks"] = {
                name: int((predicted == self.test_y).sum()) / n for name, predicted in shown
            }
        return line

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
        predicted = self._predict(model, self.table.x, self._held)
        return fractions(predicted[self.table.index], self._all_true, self.table.given)

    def _predict(self, model: Arrays, x: Inputs, index: Tensor) -> Tensor:
        predicted = torch.full((len(x),), -1)  # -1 is no class: a sample that no site holds
        size = _DECODED if isinstance(x, Pictures) else _BATCH
        for start in range(0, len(index), size):
            part = index[start : start + size]
            predicted[part] = self.predict(model, x[part]).to("cpu", torch.int64)
        return predicted

    @cached_property
    def _held(self) -> Tensor:
        return torch.bincount(self.table.index).nonzero().flatten()

    @cached_property
    def _all_true(self) -> Tensor:
        return torch.cat(list(self.true))


def per_class_accuracy(predicted: Tensor, true: Tensor, classes: int) -> list[float | None]:
    """The share answered right among the samples of each class; None for a class without any."""
    hits = torch.bincount(true[predicted == true], minlength=classes).tolist()
    sizes = torch.bincount(true, minlength=classes).tolist()
    return [hit / n if n else None for hit, n in zip(hits, sizes, strict=True)]


def scalars(line: dict[str, Any]) -> dict[str, float]:
    """The plain numbers of a line of metrics under one flat name each, for trackers."""
    names = ("accuracy", "seconds", "bytes_up", "bytes_down")
    found = {name: line.get(name) for name in names}
    for side, values in line.get("memorization", {}).items():
        found |= {f"memorization/{side}/{name}": value for name, value in values.items()}
    return {name: float(value) for name, value in found.items() if value is not None}


def recorded(folder: Path) -> int:
    """The last round of an unbroken record from the first one on."""
    rounds = {line["round"] for line in lines.read(folder / METRICS)}
    return next(number for number in count() if number + 1 not in rounds)


def truncate(folder: Path, round: int) -> None:
    """Drops what was written after a round, a half-written line included, before a resume."""
    for name in (METRICS, CLIENTS):
        lines.keep(folder / name, lambda line: line["round"] <= round)
