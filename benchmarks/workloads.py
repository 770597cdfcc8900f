"""The work that engines are compared on, by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flr.core import registry
from flr.core.errors import ConfigError


@dataclass(frozen=True)
class Workload:
    """What clients train, on how much data, and how many of them."""

    name: str
    what: str
    rounds: int
    model: Mapping[str, Any]
    shape: tuple[int, ...] = (3, 32, 32)
    data: str = "random"  # or "digits"
    clients: int = 100
    per_round: int = 10
    samples: int = 160  # of each client, where data are random
    epochs: int = 1
    batch: int = 32
    lr: float = 0.01
    momentum: float = 0.5
    classes: int = 10
    population: int | None = None  # of clients that there are data for, if not all take part
    kind: str = "engines"  # what is compared: engines, cost of FLR, numbers of clients

    def config(
        self,
        folder: Path,
        *,
        rounds: int,
        seed: int,
        workers: int = 1,
        method: str | Mapping[str, Any] = "fedavg",
        model: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """The config that makes our engine do this work on data prepared in a folder."""
        tree: dict[str, Any] = {
            "seed": seed,
            "rounds": rounds,
            "workers": workers,
            "method": method,
            "data": {"name": "npz", "path": str(folder / "data.npz")},
            "train": {
                "model": dict(model or self.model),
                "participation": self.per_round / self.clients,
                "epochs": self.epochs,
                "batch": self.batch,
                "lr": self.lr,
                "momentum": self.momentum,
            },
            # what the bare loop does not do either
            "eval": {"every": 0, "memorization_every": 0},
        }
        if self.population is None:
            return tree | {"partition": {"kind": "iid", "clients": self.clients}}
        return tree | {"scenario": {"path": str(folder / "scenario.safetensors")}}


CNN: Mapping[str, Any] = {"name": "cnn", "width": 32}  # 94,762 parameters
MLP: Mapping[str, Any] = {"name": "mlp", "hidden": 128}


WORKLOADS: Mapping[str, Workload] = {
    work.name: work
    for work in (
        Workload("main", "CNN, 10 of 100 clients, 5 steps of batch 32", 20, CNN),
        Workload("tiny", "the same with 1 step", 60, CNN, samples=32),
        Workload(
            "digits",
            "the demo's MLP on digits, 10 of 20 clients, 5 epochs of batch 10",
            60,
            MLP,
            (1, 8, 8),
            "digits",
            clients=20,
            epochs=5,
            batch=10,
            lr=0.1,
        ),
        Workload(
            "resnet",
            "ResNet-18 at width 16, 10 of 100 clients, 2 steps of batch 32",
            8,
            {"name": "resnet18", "width": 16},
            samples=64,
        ),
        Workload(
            "flr",
            "what FLR adds to FedAvg: main's CNN, 5 epochs",
            10,
            CNN,
            epochs=5,
            kind="cost",
        ),
        Workload(
            "clients",
            "100,000 clients against 100, 10 per round: MLP, 20 steps of batch 10",
            100,
            MLP,
            (16,),
            samples=10,
            epochs=20,
            batch=10,
            population=100_000,
            kind="clients",
        ),
    )
}


def get(name: str) -> Workload:
    """The workload of that name."""
    if name not in WORKLOADS:
        raise ConfigError(registry.unknown("workload", name, list(WORKLOADS)))
    return WORKLOADS[name]
