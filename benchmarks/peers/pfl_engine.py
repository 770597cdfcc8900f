"""pfl's simulation in one process: its FederatedAveraging, users and batches as plan.npz says.

It keeps torch's own number of threads: one process is faster with all cores than with one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.metadata import version
from typing import Any

import torch
import torch.nn.functional as F
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.hyperparam import NNTrainHyperParams
from pfl.metrics import Metrics, Weighted
from pfl.model.pytorch import PyTorchModel
from torch import Tensor

from benchmarks import protocol, reference
from benchmarks.peers import adapter


class CountedSGD(torch.optim.SGD):
    """SGD of the clients."""

    steps = 0

    def step(self, closure: Any = None) -> Any:
        CountedSGD.steps += 1
        return super().step(closure)


class PlannedUser(Dataset):
    """One user in one round; its batches are cut already."""

    def iter(self, batch_size: int | None) -> Iterator[Any]:
        x, y = self.raw_data
        return ((x[rows], y[rows]) for rows in self.metadata["steps"])


class RoundCallback(TrainingProcessCallback):
    """Says that a round is over."""

    def __init__(self, turn: Callable[[], None]) -> None:
        self.turn = turn

    def after_central_iteration(
        self, aggregate_metrics: Metrics, model: Any, *, central_iteration: int
    ) -> tuple[bool, Metrics]:
        self.turn()
        return False, Metrics()


def as_pfl_wants(network: torch.nn.Module) -> torch.nn.Module:
    """With a loss, and a metric that costs nothing: pfl evaluates the first round in any case."""

    def loss(x: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(network(x), y)

    def metrics(*_: Tensor) -> dict[str, Weighted]:
        return {"none": Weighted(0.0, 1.0)}

    network.loss, network.metrics = loss, metrics
    return network.train()


def main() -> None:
    """Trains all rounds and prints what became of them."""
    folder, workload, turn = adapter.start("pfl", "FLR_BENCH_PFL")
    work, network = reference.read(folder), reference.network(workload)
    network.load_state_dict(work.initial)
    lr, momentum = workload["lr"], workload["momentum"]
    model = PyTorchModel(
        as_pfl_wants(network),
        lambda parameters, lr: CountedSGD(parameters, lr, momentum),
        torch.optim.SGD(network.parameters(), 1.0),
    )
    visits = iter([steps for asked in work.plan for steps in asked])
    users = FederatedDataset(
        lambda steps: PlannedUser((work.x, work.y), metadata={"steps": steps}), lambda: next(visits)
    )
    FederatedAveraging().run(
        NNAlgorithmParams(
            central_num_iterations=workload["rounds"],
            evaluation_frequency=workload["rounds"] + 1,
            train_cohort_size=workload["per_round"],
            val_cohort_size=None,
        ),
        SimulatedBackend(training_data=users, val_data=None),
        model,
        NNTrainHyperParams(
            local_batch_size=workload["batch"], local_num_epochs=1, local_learning_rate=lr
        ),
        callbacks=[RoundCallback(turn)],
        send_metrics_to_platform=False,
    )
    weights = {name: value.numpy() for name, value in network.state_dict().items()}
    protocol.finish(folder, turn, weights, CountedSGD.steps, f"pfl {version('pfl')}")


if __name__ == "__main__":
    main()
