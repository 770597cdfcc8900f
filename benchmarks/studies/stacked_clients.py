"""The clients of a round as one stacked batch, beside the present training loop, for FedAvg.

    python -m benchmarks.studies.stacked_clients [--together 2]

A perceptron of one hidden layer, SGD with momentum. Stacked, all clients of a round take their
n-th step at once, as batched matrix products with the gradient written out. "Written out" is the
same text with one client at a time: what it gains is gained without stacking. All ways see the
same batches, and take turns in one process on one thread. What counts is processor time. All sites
have one size: the prototype pads nothing.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import Tensor

from flr.client.state import StateFiles
from flr.client.worker import ClientTask, ClientWorker
from flr.config import parse
from flr.core import seeds
from flr.core.arrays import Arrays
from flr.data.batches import batches
from flr.engine.memory_allocator import keep_freed_memory
from flr.models.networks import weights_of
from flr.simulation import build

FEATURES = {"partition": {"kind": "iid", "clients": 10}, "train": {"lr": 0.03}}
DIGITS = {"partition": {"kind": "iid", "clients": 5}, "train": {}}
DIGITS |= {"data": {"name": "digits", "train": 350}}
WORKLOADS: dict[str, tuple[dict[str, Any], int]] = {  # settings, and how wide the network is
    "features (1,280), mlp 256, 10 clients of 500": (FEATURES, 256),
    "features (1,280), mlp 64, 10 clients of 500": (FEATURES, 64),
    "digits (64), mlp 128, 5 clients of 70": (DIGITS, 128),
}
W1, B1, W2, B2 = (
    f"model.0.{part}.{kind}" for part in ("body.1", "head") for kind in ("weight", "bias")
)


class Round:
    """Clients that are all asked once: five epochs in batches of ten."""

    def __init__(self, settings: dict[str, Any], hidden: int, folder: Path) -> None:
        train = {**settings["train"], "model": {"name": "mlp", "hidden": hidden}}
        self.config = parse({"rounds": 1, "method": "fedavg", **settings, "train": train})
        x = np.random.default_rng(0).normal(size=(5010, 1280)).astype("float32")
        y = np.arange(5010) % 10
        data = None if "data" in settings else (x[:5000], y[:5000], x[5000:], y[5000:])
        dataset = build.load_data(self.config, data)
        sites = build.make_sites(dataset, build.load_scenario(self.config, dataset))
        spec = build.make_worker_spec(self.config, dataset.task_spec(), sites, StateFiles(folder))
        self.worker = ClientWorker(spec)
        self.first = weights_of(build.first_networks(self.config, dataset.task_spec()))
        self.clients = range(settings["partition"]["clients"])
        self.sites = [sites[k] for k in self.clients]

    def train(self, way: str, together: int) -> list[Arrays]:
        """The weights of all clients after the round, of which so many are in a stack."""
        if way != "loop":
            size = together if way == "stacked" else 1
            parts = (self.clients[i : i + size] for i in range(0, len(self.clients), size))
            return [weights for part in parts for weights in self.at_once(part)]
        self.worker.broadcast = self.first
        tasks = (ClientTask("fit", k, 0, 0, 1) for k in self.clients)
        return [self.worker.serve(task).reply.arrays for task in tasks]

    def rows(self, clients: Sequence[int]) -> list[Tensor]:
        """Which samples each client takes in each step (clients x batch): those of the loop."""
        train, each = self.config.train, []
        for k in clients:
            order = seeds.generator(self.config.seed, "order", k, 0)
            epochs = (batches(self.sites[k], train.batch, order) for _ in range(train.epochs))
            each.append([rows for epoch in epochs for rows in epoch])
        return [torch.stack(step) for step in zip(*each, strict=True)]

    @torch.no_grad()
    def at_once(self, clients: Sequence[int]) -> list[Arrays]:
        """Training by batched products; momenta take the gradients up as they are made."""
        mu, lr, many = self.config.train.momentum, self.config.train.lr, len(clients)
        x = torch.stack([self.sites[k].x.flatten(1) for k in clients])  # clients x samples x inputs
        y = torch.stack([self.sites[k].y for k in clients])
        place = torch.arange(many)[:, None]
        w = {name: torch.stack([value] * many) for name, value in self.first.items()}
        w[B1], w[B2] = w[B1][:, None], w[B2][:, None]
        v = {name: torch.zeros_like(value) for name, value in w.items()}
        for rows in self.rows(clients):
            inputs, given = x[place, rows], y[place, rows, None]
            hidden = torch.baddbmm(w[B1], inputs, w[W1].mT).relu_()
            slope = torch.baddbmm(w[B2], hidden, w[W2].mT).softmax(2)
            slope.scatter_add_(2, given, torch.full(given.shape, -1.0)).div_(rows.shape[1])
            below = torch.bmm(slope, w[W2]).mul_(hidden > 0)
            torch.baddbmm(v[W2], slope.mT, hidden, beta=mu, out=v[W2])
            torch.baddbmm(v[W1], below.mT, inputs, beta=mu, out=v[W1])
            v[B2].mul_(mu).add_(slope.sum(1, keepdim=True))
            v[B1].mul_(mu).add_(below.sum(1, keepdim=True))
            for name, value in w.items():
                value.add_(v[name], alpha=-lr)
        shapes = {name: value.shape for name, value in self.first.items()}
        return [{name: w[name][i].view(s) for name, s in shapes.items()} for i in range(many)]


def measured(case: Round, repeats: int, together: int) -> str:
    """A row of the table; the first turn warms up."""
    spent: dict[str, list[float]] = {"loop": [], "stacked": [], "written out": []}
    made: dict[str, list[Arrays]] = {}
    for turn in range(repeats + 1):
        for way in list(spent)[:: 1 if turn % 2 else -1]:
            before = time.process_time()
            made[way] = case.train(way, together)
            spent[way].append(time.process_time() - before)
    loop = spent.pop("loop")[1:]
    shown = [f"{median(loop):.2f}"]
    for seconds in spent.values():
        ratios = [own / other for own, other in zip(seconds[1:], loop, strict=True)]
        shown.append(f"{median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})")
    pairs = zip(made["loop"], made["stacked"], strict=True)
    apart = max(float((a[name] - b[name]).abs().max()) for a, b in pairs for name in a)
    return " | ".join([*shown, f"{apart:.1e}"])


def main() -> None:
    """Prints a row for each workload."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--together", type=int, default=100, help="clients in a stack, at most")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()
    print("| a round | loop, s | stacked / loop | written out / loop | largest difference |")
    print("| --- | --- | --- | --- | --- |")
    for name, (settings, hidden) in WORKLOADS.items():
        with tempfile.TemporaryDirectory() as folder:
            case = Round(settings, hidden, Path(folder))
        print(f"| {name} | {measured(case, asked.repeats, asked.together)} |", flush=True)


if __name__ == "__main__":
    main()
