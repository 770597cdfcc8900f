"""The unit of all ratios: federated averaging as a plain PyTorch loop, without any of `flr`.

Its start and its memory are those of torch alone:

    python -m benchmarks.reference FOLDER [--threads 1] [--turns]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks import protocol
from benchmarks.protocol import Turn


class Network(nn.Module):
    """A body and a linear head."""

    def __init__(self, body: Sequence[nn.Module], features: int, classes: int) -> None:
        super().__init__()
        self.body = nn.Sequential(*body)
        self.head = nn.Linear(features, classes)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.body(x))
        return logits


def cnn(shape: Sequence[int], classes: int, width: int = 32) -> nn.Module:
    """Three strided convolutions with GroupNorm, averaged over space."""
    sizes = [shape[0], width, 2 * width, 4 * width]
    body: list[nn.Module] = []
    for before, after in pairwise(sizes):
        convolution = nn.Conv2d(before, after, 3, stride=2, padding=1, bias=False)
        body += [convolution, nn.GroupNorm(math.gcd(8, after), after), nn.ReLU()]
    return Network([*body, nn.AdaptiveAvgPool2d(1), nn.Flatten()], sizes[-1], classes)


def mlp(shape: Sequence[int], classes: int, hidden: int = 128) -> nn.Module:
    """One hidden layer."""
    body = [nn.Flatten(), nn.Linear(math.prod(shape), hidden), nn.ReLU()]
    return Network(body, hidden, classes)


class Block(nn.Module):
    """Two convolutions with BatchNorm and a shortcut."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(after)
        self.shortcut = nn.Sequential()
        if stride != 1 or before != after:
            projection = nn.Conv2d(before, after, 1, stride, bias=False)
            self.shortcut = nn.Sequential(projection, nn.BatchNorm2d(after))

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(out)) + self.shortcut(x))


def resnet18(shape: Sequence[int], classes: int, width: int = 64) -> nn.Module:
    """ResNet-18 for small images."""
    stem = nn.Conv2d(shape[0], width, 3, 1, 1, bias=False)
    body: list[nn.Module] = [stem, nn.BatchNorm2d(width), nn.ReLU()]
    before = width
    for stage in range(4):
        after = width * 2**stage
        body += [Block(before, after, 2 if stage else 1), Block(after, after, 1)]
        before = after
    return Network([*body, nn.AdaptiveAvgPool2d(1), nn.Flatten()], before, classes)


def network(workload: dict[str, Any]) -> nn.Module:
    """The network of a workload, with random weights."""
    known: dict[str, Callable[..., nn.Module]] = {"cnn": cnn, "mlp": mlp, "resnet18": resnet18}
    options = dict(workload["model"])
    make = known[options.pop("name")]
    return make(workload["input_shape"], workload["classes"], **options)


class LoadedWorkload(NamedTuple):
    """A prepared folder in memory."""

    workload: dict[str, Any]
    x: Tensor  # float32, normalised
    y: Tensor
    plan: list[list[list[Tensor]]]  # round, client, step -> sample numbers
    samples: list[list[int]]  # round, client -> how many the client holds
    initial: dict[str, Tensor]


def read(folder: Path) -> LoadedWorkload:
    """All that a loop needs."""
    workload = protocol.read_workload(folder)
    with np.load(folder / "data.npz") as data:
        raw, y = torch.from_numpy(data["x_train"]), torch.from_numpy(data["y_train"])
    shape = (1, -1) + (1,) * (raw.dim() - 2)
    mean, std = (torch.tensor(workload[key]).view(shape) for key in ("mean", "std"))
    x = (raw.to(torch.float32) - mean) / std
    with np.load(folder / "plan.npz") as plan:
        held = np.diff(plan["offset"])[plan["clients"]].tolist()
        rounds = [[steps_of(client) for client in asked] for asked in plan["batches"]]
    with np.load(folder / "initial.npz") as weights:
        initial = {name: torch.from_numpy(value) for name, value in weights.items()}
    return LoadedWorkload(workload, x, y, rounds, held, initial)


def steps_of(batches: np.ndarray[Any, Any]) -> list[Tensor]:
    """The steps of one client in one round; -1 fills up."""
    steps = [torch.from_numpy(rows[rows >= 0]).long() for rows in batches]
    return [step for step in steps if len(step)]


def train(work: LoadedWorkload, turn: Turn) -> tuple[int, dict[str, Tensor]]:
    """All rounds: how many steps were taken, and the last weights."""
    model = network(work.workload)
    lr, momentum = work.workload["lr"], work.workload["momentum"]
    weights, steps = work.initial, 0
    for asked, samples in zip(work.plan, work.samples, strict=True):
        mean = {name: torch.zeros(w.shape, dtype=torch.float64) for name, w in weights.items()}
        for batches, held in zip(asked, samples, strict=True):
            model.load_state_dict(weights)
            model.train()
            optimizer = torch.optim.SGD(model.parameters(), lr, momentum)
            for rows in batches:
                loss = F.cross_entropy(model(work.x[rows]), work.y[rows])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                steps += 1
            for name, value in model.state_dict().items():
                mean[name] += value.double() * (held / sum(samples))
        weights = {name: mean[name].to(w.dtype) for name, w in weights.items()}
        turn()
    return steps, weights


@torch.no_grad()
def forwards(work: LoadedWorkload, each: str, turn: Turn) -> int:
    """As many forward passes as one more look at every batch, or at every sample once a round.

    They show samples to the first weights: each one neighbours in memory, as many as in the batch,
    for putting samples together is no part of a forward pass.
    """
    model = network(work.workload).eval()
    steps = 0
    for asked in work.plan:
        for batches in asked:
            model.load_state_dict(work.initial)
            once = len(batches) // int(work.workload["epochs"])
            for rows in batches if each == "steps" else batches[:once]:
                start = min(int(rows[0]), len(work.x) - len(rows))
                model(work.x[start : start + len(rows)])
                steps += 1
        turn()
    return steps


def main() -> None:
    """Reads, trains and prints."""
    parser = protocol.parser()
    parser.add_argument("--threads", type=int)
    options = parser.parse_args()
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    ends = protocol.RoundEnds(options.turns)
    steps, weights = train(read(options.folder), ends)
    arrays = {name: value.numpy() for name, value in weights.items()}
    protocol.finish(options.folder, ends, arrays, steps, f"torch {torch.__version__}")


if __name__ == "__main__":
    main()
