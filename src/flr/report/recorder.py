"""What any server can write down of a run: one line per round, one per client and round."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from flr.core.arrays import Arrays
from flr.core.observers import ClientOutcome, RoundEnd, RoundScore
from flr.report import jsonl
from flr.report import metrics as measures
from flr.report.trackers.common import Session

METRICS = "metrics.jsonl"
CLIENTS = "clients.jsonl"
LAST = 10  # the last rounds are always measured: the mean over them is what is compared
TEST, SITES = "test", "sites"  # views: the test set, and all samples that sites hold some of

Predict = Callable[[Arrays, str, Tensor], Tensor]  # model, view, sample numbers -> class numbers
Views = Callable[[Arrays], dict[str, Tensor]]  # the test set's by each network and by all


@dataclass(kw_only=True)
class Recorder:
    """Measures the accuracy of every round that is due and appends what it saw to the folder."""

    folder: Path
    predict: Predict
    test_y: Tensor
    classes: tuple[str, ...]
    rounds: int
    every: int
    trackers: Sequence[Session] = ()
    on_round: Callable[[dict[str, Any]], None] | None = None
    views: Views | None = None  # of the test set, where a method trains several networks
    sites: Sequence[str] | None = None  # names, where clients have some
    metrics: Sequence[str] = ()  # besides accuracy, as `[eval]` names them
    logits: Predict | None = None  # in place of class numbers, for the metrics that want them

    @property
    def commonest(self) -> float | None:
        """How often one is right by always naming the commonest class of the test set."""
        return int(self.test_y.bincount().max()) / len(self.test_y) if len(self.test_y) else None

    def wants_predictions(self, round: int) -> bool:
        """What clients predict of their own data is for those who know the true labels."""
        return False

    def round_end(self, event: RoundEnd) -> None:
        """Writes the clients first: a line of metrics says that the round is complete."""
        clients = [self.client_line(event.round, outcome) for outcome in event.outcomes]
        self.write(event, clients, self.measured(event))

    def write(
        self, event: RoundEnd, clients: Sequence[dict[str, Any]], measured: dict[str, Any]
    ) -> None:
        """Appends the lines of a round, and tells whoever watches."""
        outcomes, score = event.outcomes, event.score
        refused = [
            {"client": o.client, "reason": o.reason} for o in outcomes if o.status == "refused"
        ]
        line = {
            "round": event.round,
            "seconds": event.seconds,
            # a round may have many steps, and a client a part in several of them
            "participants": sorted({o.client for o in outcomes if o.status == "ok"}),
            "dropped": [o.client for o in outcomes if o.status == "dropped"],
            "refused": refused,
            "bytes_up": sum(o.bytes_up for o in outcomes) + (score.bytes_up if score else 0),
            "bytes_down": sum(o.bytes_down for o in outcomes) + (score.bytes_down if score else 0),
            **measured,
            **({} if score is None else {"validation": validation(score)}),
        }
        self.folder.mkdir(parents=True, exist_ok=True)
        jsonl.append(self.folder / CLIENTS, clients)
        jsonl.append(self.folder / METRICS, [line])
        values = scalars(line)
        for tracker in self.trackers:
            tracker.log(event.round, values)
        if self.on_round is not None:
            self.on_round(line)

    def close(self) -> None:
        """Lets the trackers finish their files."""
        for tracker in self.trackers:
            tracker.close()

    def measured(self, event: RoundEnd) -> dict[str, Any]:
        """The accuracy, in a round where it is due, or that is the best by held-out labels."""
        chosen = event.score is not None and event.score.best
        due = event.round == 1 or chosen or self.among_due(event.round, self.every)
        return self.accuracy(event.model) if self.every and due else {}

    def among_due(self, number: int, every: int) -> bool:
        """Whether a round is one of every so many, or of the last ones; with 0 none ever is."""
        return every > 0 and (number % every == 0 or number > self.rounds - LAST)

    def client_line(self, number: int, o: ClientOutcome) -> dict[str, Any]:
        """What became of one client in a round."""
        return {
            "round": number,
            "client": o.client,
            **({} if self.sites is None else {"site": self.sites[o.client]}),
            "status": o.status,
            "reason": o.reason,
            "examples": o.examples,
            "seconds": o.seconds,
            "bytes_up": o.bytes_up,
            "bytes_down": o.bytes_down,
            **({} if o.norm is None else {"update_norm": o.norm}),
        }

    def accuracy(self, model: Arrays) -> dict[str, Any]:
        """On the test set: of all networks together, of each class, and of each network."""
        n, logits = len(self.test_y), None
        predicted, rows = self.test_y, torch.arange(n)
        if n and self.logits is not None and measures.need_logits(self.metrics):
            logits = self.logits(model, TEST, rows)
            predicted = logits.argmax(1)
        elif n:
            predicted = self.predict(model, TEST, rows)
        hits = int((predicted == self.test_y).sum())
        each = per_class_accuracy(predicted, self.test_y, len(self.classes))
        line: dict[str, Any] = {
            "accuracy": hits / n if n else None,
            "accuracy_per_class": dict(zip(self.classes, each, strict=True)),
        }
        if self.metrics:
            line["metrics"] = measures.on_test(self.metrics, self.test_y, predicted, logits)
        if self.views is not None and n:
            line["accuracy_networks"] = {
                name: int((predicted == self.test_y).sum()) / n
                for name, predicted in self.views(model).items()
            }
        return line


def validation(score: RoundScore) -> dict[str, Any]:
    """A round's score as its line has it."""
    share = score.right / score.samples
    return {"accuracy": share, "right": score.right, "samples": score.samples}


def per_class_accuracy(predicted: Tensor, true: Tensor, classes: int) -> list[float | None]:
    """The share answered right among the samples of each class; None for a class without any."""
    hits = torch.bincount(true[predicted == true], minlength=classes).tolist()
    sizes = torch.bincount(true, minlength=classes).tolist()
    return [hit / n if n else None for hit, n in zip(hits, sizes, strict=True)]


def scalars(line: dict[str, Any]) -> dict[str, float]:
    """The plain numbers of a line of metrics under one flat name each, for trackers."""
    found = {name: line.get(name) for name in ("accuracy", "seconds", "bytes_up", "bytes_down")}
    for side, values in line.get("memorization", {}).items():
        found |= {f"memorization/{side}/{name}": value for name, value in values.items()}
    for name, value in measures.scalars(line.get("metrics", {})).items():
        found[f"metrics/{name}"] = value
    if "validation" in line:
        found["validation/accuracy"] = line["validation"]["accuracy"]
    return {name: float(value) for name, value in found.items() if value is not None}


def recorded(folder: Path) -> int:
    """The last round of an unbroken record from the first one on."""
    rounds = {_round(line) for line in jsonl.read(folder / METRICS, damaged=True)}
    return next(number for number in count() if number + 1 not in rounds)


def truncate(folder: Path, round: int) -> None:
    """Drops what was written after a round, a half-written line included, before a resume."""
    for name in (METRICS, CLIENTS):
        jsonl.keep(folder / name, lambda line: 0 < _round(line) <= round)


def _round(line: dict[str, Any]) -> int:
    """The number of a line's round; 0 where it has none."""
    number = line.get("round")
    return number if isinstance(number, int) else 0
