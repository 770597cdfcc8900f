"""Flower's simulation on Ray, two actors with one torch thread each: stock FedAvg.

Flower draws its nodes itself; what the k-th node of a round trains is what plan.npz says of its
k-th client. So the weights can be compared too.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks import protocol, reference
from benchmarks.peers import adapter

os.environ |= protocol.QUIET

import flwr
import numpy as np
import ray
import torch
import torch.nn.functional as F
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation

ACTORS = 2
RAY = {
    "init_args": {
        "num_cpus": ACTORS,
        "num_gpus": 0,
        "include_dashboard": False,
        "_node_ip_address": "127.0.0.2",  # loopback; Ray replaces 127.0.0.1 by a public address
    },
    "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
}

client_app = ClientApp()


class ActorData:
    """What an actor reads once: the inputs lie in a file that both actors map."""

    def __init__(self, folder: Path) -> None:
        torch.set_num_threads(1)
        self.workload = protocol.read_workload(folder)
        self.model = reference.network(self.workload)
        self.x = np.load(folder / "x.npy", mmap_mode="r")
        with np.load(folder / "data.npz") as data:
            self.y = torch.from_numpy(data["y_train"])
        with np.load(folder / "plan.npz") as plan:
            self.batches = plan["batches"]
            self.held = np.diff(plan["offset"])[plan["clients"]]


actor_data = cache(ActorData)


@client_app.train()
def train(message: Message, _context: Context) -> Message:
    """One client in one round."""
    config = message.content["config"]
    work, place = actor_data(Path(config["folder"])), (config["round"], config["client"])
    model, lr, momentum = work.model, work.workload["lr"], work.workload["momentum"]
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    model.train()
    optimizer, steps = torch.optim.SGD(model.parameters(), lr, momentum), 0
    for rows in reference.steps_of(work.batches[place]):
        loss = F.cross_entropy(model(torch.from_numpy(work.x[rows.numpy()])), work.y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        steps += 1
    metrics = MetricRecord({"num-examples": int(work.held[place]), "steps": steps})
    arrays = ArrayRecord(model.state_dict())
    return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)


class CountingFedAvg(FedAvg):
    """Stock averaging that says which client is meant, and counts steps."""

    def __init__(self, folder: Path, workload: dict[str, Any], turn: Callable[[], None]) -> None:
        share = workload["per_round"] / workload["clients"]
        super().__init__(share, 0.0, workload["per_round"], 0, workload["clients"])
        self.folder, self.turn, self.steps = str(folder), turn, 0

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        messages = list(super().configure_train(server_round, arrays, config, grid))
        for k, message in enumerate(messages):
            task = ConfigRecord({"folder": self.folder, "round": server_round - 1, "client": k})
            message.content = RecordDict({"arrays": arrays, "config": task})
        return messages

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        replies = list(replies)
        if any(reply.has_error() for reply in replies):
            raise RuntimeError(next(reply.error.reason for reply in replies if reply.has_error()))
        result = super().aggregate_train(server_round, replies)
        self.steps += sum(reply.content["metrics"]["steps"] for reply in replies)
        self.turn()
        return result


def main() -> None:
    """Trains all rounds and prints what became of them."""
    folder, workload, turn = adapter.start("Flower", "FLR_BENCH_FLOWER_RAY")
    work = reference.read(folder)
    np.save(folder / "x.npy", work.x.numpy())
    initial = ArrayRecord(work.initial)
    del work
    strategy, server_app = CountingFedAvg(folder, workload, turn), ServerApp()
    weights: dict[str, Any] = {}

    @server_app.main()
    def serve(grid: Grid, _context: Context) -> None:
        last = strategy.start(grid, initial, workload["rounds"]).arrays.to_torch_state_dict()
        weights.update({name: value.numpy() for name, value in last.items()})

    run_simulation(server_app, client_app, workload["clients"], backend_config=RAY)
    version = f"flwr {flwr.__version__}, ray {ray.__version__}"
    protocol.finish(folder, turn, weights, strategy.steps, version)


if __name__ == "__main__":
    # as a module with a name: of __main__, Ray would send a copy with every message
    importlib.import_module("benchmarks.peers.flower_ray").main()
