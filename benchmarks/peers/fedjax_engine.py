"""FedJAX in one process: its federated_averaging, clients and batches as plan.npz says.

The network is written in plain JAX, with torch's names and channels last, as XLA prefers on a CPU.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import fedjax
import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import protocol
from benchmarks.peers import adapter

Arrays = dict[str, Any]


class PlannedClient:
    """One client in one round, in place of FedJAX's ClientDataset; its batches are cut already."""

    steps = 0  # of all clients: one for each batch that is fetched

    def __init__(self, x: Any, y: Any, batches: Any) -> None:
        self.x, self.y = x, y
        self.rows = [rows[rows >= 0] for rows in batches if rows[0] >= 0]

    def __len__(self) -> int:
        return sum(len(rows) for rows in self.rows)

    def shuffle_repeat_batch(self, hparams: Any) -> Iterator[Arrays]:
        for rows in self.rows:
            PlannedClient.steps += 1
            yield {"x": self.x[rows], "y": self.y[rows]}


def forward(weights: Arrays, x: Any) -> Any:
    """Three strided convolutions with GroupNorm, averaged over space, and a linear head."""
    for layer in (0, 3, 6):
        kernel = weights[f"body.{layer}.weight"]
        x = jax.lax.conv_general_dilated(
            x, kernel, (2, 2), ((1, 1), (1, 1)), dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        scale, shift = weights[f"body.{layer + 1}.weight"], weights[f"body.{layer + 1}.bias"]
        x = jax.nn.relu(group_norm(x) * scale + shift)
    return x.mean((1, 2)) @ weights["head.weight"].T + weights["head.bias"]


def group_norm(x: Any) -> Any:
    """As torch's, before scale and shift."""
    grouped = x.reshape(*x.shape[:3], math.gcd(8, x.shape[3]), -1)
    mean = grouped.mean((1, 2, 4), keepdims=True)
    variance = grouped.var((1, 2, 4), keepdims=True)
    return ((grouped - mean) * jax.lax.rsqrt(variance + 1e-5)).reshape(x.shape)


def loss(weights: Arrays, batch: Arrays, _rng: Any) -> Any:
    """Mean cross entropy."""
    chosen = jax.nn.log_softmax(forward(weights, batch["x"]))
    return -jnp.take_along_axis(chosen, batch["y"][:, None], 1).mean()


def with_axes(weights: Arrays, axes: tuple[int, ...]) -> Arrays:
    """Kernels with their axes in another order."""
    return {name: w.transpose(axes) if w.ndim == 4 else w for name, w in weights.items()}


def read(folder: Path, workload: Arrays) -> tuple[list[list[PlannedClient]], Arrays]:
    """Clients of each round, and the first weights."""
    with np.load(folder / "data.npz") as data:
        raw, y = data["x_train"].transpose(0, 2, 3, 1), data["y_train"].astype(np.int32)
    mean, std = (np.array(workload[key], np.float32) for key in ("mean", "std"))
    x = np.ascontiguousarray((raw.astype(np.float32) - mean) / std)
    with np.load(folder / "plan.npz") as plan:
        rounds = [[PlannedClient(x, y, batches) for batches in asked] for asked in plan["batches"]]
    with np.load(folder / "initial.npz") as initial:
        return rounds, with_axes(dict(initial), (2, 3, 1, 0))


def main() -> None:
    """Trains all rounds and prints what became of them."""
    folder, workload, turn = adapter.start("FedJAX", "FLR_BENCH_FEDJAX")
    rounds, initial = read(folder, workload)
    algorithm = fedjax.algorithms.fed_avg.federated_averaging(
        jax.grad(loss),
        fedjax.optimizers.sgd(workload["lr"], workload["momentum"]),
        fedjax.optimizers.sgd(1.0),
        fedjax.ShuffleRepeatBatchHParams(batch_size=workload["batch"]),
    )
    state = algorithm.init(jax.tree_util.tree_map(jnp.asarray, initial))
    key = jax.random.PRNGKey(workload["seed"])
    for asked in rounds:
        clients = [(k, client, key) for k, client in enumerate(asked)]
        state, _ = algorithm.apply(state, clients)
        jax.block_until_ready(state.params)
        turn()
    weights = {name: np.asarray(w) for name, w in state.params.items()}
    versions = f"fedjax {version('fedjax')}, jax {jax.__version__}"
    weights = with_axes(weights, (3, 2, 0, 1))
    protocol.finish(folder, turn, weights, PlannedClient.steps, versions)


if __name__ == "__main__":
    main()
