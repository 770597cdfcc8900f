"""The work that engines are compared on, by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import numbered
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
    views: int = 0  # of each sample, where our engine has inputs as features of a backbone
    kind: str = "engines"  # what is compared: engines, cost of FLR, numbers of clients, embedding

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
            "data": self._data(folder),
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

    def _data(self, folder: Path) -> dict[str, Any]:
        if not self.views:
            return {"name": "npz", "path": str(folder / "data.npz")}
        backbone = {"name": f"{numbered.__name__}:Numbered", "width": self.shape[0]}
        path = str(folder / numbered.IMAGES)
        return {"name": "npz", "path": path, "backbone": backbone, "views": self.views}


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
        Workload(
            "features",
            "MLP of 256 on 1,280 features in 4 views, 10 of 100 clients, 5 epochs of batch 10",
            6,
            {"name": "mlp", "hidden": 256},
            (1280,),
            samples=500,
            epochs=5,
            batch=10,
            views=4,
        ),
        Workload(
            "embedding",
            "features of 1,536 images of 3 x 32 x 32 by EfficientNet-Lite0 at 128 pixels, batch 32",
            3,
            {"name": "efficientnet-lite0", "size": 128},
            samples=1536,
            kind="embedding",
        ),
    )
}


def get(name: str) -> Workload:
    """The workload of that name."""
    if name not in WORKLOADS:
        raise ConfigError(registry.unknown("workload", name, list(WORKLOADS)))
    return WORKLOADS[name]
