"""Writes the folder that every engine reads: data, who trains on what, first weights.

    python -m benchmarks.prepare NAME FOLDER [--rounds N] [--seed S]

What the files hold is in benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from benchmarks import numbered, workloads
from benchmarks.protocol import write_workload
from benchmarks.workloads import WORKLOADS, Workload
from flr.config import parse
from flr.core import seeds
from flr.core.contract import Server, Site
from flr.data.batches import batches
from flr.data.dataset import Dataset
from flr.data.features import Features
from flr.data.sources.digits import Digits
from flr.models.embedding import BATCH
from flr.scenario.scenario import Scenario
from flr.simulation.build import first_networks, load_data, load_scenario

Array = np.ndarray[Any, Any]

FEATURES = "features"  # of an embedding, compared between engines as weights are
_TEST = 100  # samples; nobody looks at them


@dataclass(frozen=True)
class Prepared:
    """A workload on disk, ready for any engine."""

    folder: Path
    workload: Workload
    rounds: int
    seed: int
    steps: int  # of all clients in all rounds


def prepare(workload: Workload, folder: Path, rounds: int, seed: int) -> Prepared:
    """Writes all files into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    if workload.kind == "embedding":
        return prepare_embedding(workload, folder, rounds, seed)
    made = make_data(workload, seed)
    np.savez(folder / (numbered.IMAGES if workload.views else "data.npz"), **made)
    config = parse(replace(workload, population=None).config(folder, rounds=rounds, seed=seed))
    with numbered.cache_in(folder / "cache"):
        dataset = load_data(config)
    if workload.views:
        np.savez(folder / "data.npz", **first_views(dataset))
    scenario = assign_samples(workload, config, dataset)
    networks = first_networks(config, dataset.task_spec())
    weights: dict[str, Any] = {
        name: value.numpy() for name, value in networks[0].state_dict().items()
    }
    np.savez(folder / "initial.npz", **weights)
    plan = make_plan(workload, scenario, rounds, seed)
    np.savez(folder / "plan.npz", **plan)
    write_workload(folder, facts_of(workload, dataset, rounds, seed))
    if workload.population is not None:
        scenario.save(folder / "scenario.safetensors")
    steps = int((plan["batches"][..., 0] >= 0).sum())
    return Prepared(folder, workload, rounds, seed, steps)


def prepare_embedding(workload: Workload, folder: Path, rounds: int, seed: int) -> Prepared:
    """Images, what embeds them, and what the distance of features is measured from."""
    rng = seeds.numpy_generator(seed, "bench")
    shape = (workload.samples, *workload.shape)
    np.savez(folder / numbered.IMAGES, x=rng.integers(0, 256, shape, dtype=np.uint8))
    nothing: dict[str, Any] = {FEATURES: np.zeros(1)}
    np.savez(folder / "initial.npz", **nothing)
    write_workload(folder, {"name": workload.name, "model": dict(workload.model), "rounds": rounds})
    batches_of_all = math.ceil(workload.samples / BATCH)
    return Prepared(folder, workload, rounds, seed, rounds * batches_of_all)


def facts_of(workload: Workload, dataset: Dataset, rounds: int, seed: int) -> dict[str, Any]:
    """What stands in workload.json."""
    names = ("name", "clients", "per_round", "epochs", "batch", "lr", "momentum", "classes")
    return {
        **{name: getattr(workload, name) for name in names},
        "model": dict(workload.model),
        "input_shape": list(dataset.input_shape),
        "rounds": rounds,
        "seed": seed,
        "mean": list(dataset.normalize.mean),
        "std": list(dataset.normalize.std),
    }


def make_data(workload: Workload, seed: int) -> dict[str, Any]:
    """Digits, or noise: how long a step takes does not depend on what is in a picture."""
    if workload.data == "digits":
        digits = Digits().load()
        parts = {"train": digits.train, "test": digits.test}
        arrays = {f"x_{name}": torch.as_tensor(part.x).numpy() for name, part in parts.items()}
        return arrays | {f"y_{name}": part.y.numpy() for name, part in parts.items()}
    rng = seeds.numpy_generator(seed, "bench")
    sizes = {"train": (workload.population or workload.clients) * workload.samples, "test": _TEST}
    made: dict[str, Array] = {}
    for name, n in sizes.items():
        shape = (n, *workload.shape)
        if workload.views:
            made[f"x_{name}"] = numbered.images(0 if name == "train" else sizes["train"], n)
        elif len(shape) == 4:
            made[f"x_{name}"] = rng.integers(0, 256, shape, dtype=np.uint8)
        else:
            made[f"x_{name}"] = rng.standard_normal(shape, dtype=np.float32)
        made[f"y_{name}"] = np.arange(n) % workload.classes  # all classes, whatever n is
    return made


def first_views(dataset: Dataset) -> dict[str, Any]:
    """What the bare loop and other engines read: features of each sample as it is, float16."""
    found: dict[str, Any] = {}
    for name, part in (("train", dataset.train), ("test", dataset.test)):
        found[f"x_{name}"] = cast(Features, part.x).values[:, 0].numpy()
        found[f"y_{name}"] = part.y.numpy()
    return found


def assign_samples(workload: Workload, config: Any, dataset: Dataset) -> Scenario:
    """Who holds what; of a large population only the first clients may take part."""
    if workload.population is None:
        return load_scenario(config, dataset)
    partition = {"kind": "iid", "clients": workload.population}
    changed = parse({"rounds": 1, "seed": config.seed, "partition": partition})
    every = load_scenario(changed, dataset)
    n = workload.clients
    return replace(every, sites=every.sites[:n], given=every.given[:n], nominal=every.nominal[:n])


def make_plan(workload: Workload, scenario: Scenario, rounds: int, seed: int) -> dict[str, Any]:
    """Sites, clients of each round and samples of each step, as our engine will draw them."""
    server = Server({}, {}, rounds, workload.clients, workload.per_round, seed, lambda *_: {})
    clients: list[list[int]] = []
    drawn: list[list[list[Array]]] = []
    for step in range(rounds):
        server.step = step
        clients.append(list(server.sample()))
        drawn.append([steps_of(workload, scenario, seed, client, step) for client in clients[-1]])
    longest = max(len(steps) for asked in drawn for steps in asked)
    filled = np.full((rounds, workload.per_round, longest, workload.batch + 1), -1, dtype=np.int32)
    for r, asked in enumerate(drawn):
        for k, steps in enumerate(asked):
            for s, rows in enumerate(steps):
                filled[r, k, s, : len(rows)] = rows
    offset = np.concatenate([[0], np.cumsum(scenario.sizes.numpy())])
    index = scenario.index.numpy()
    return {"index": index, "offset": offset, "clients": np.array(clients), "batches": filled}


def steps_of(
    workload: Workload, scenario: Scenario, seed: int, client: int, step: int
) -> list[Array]:
    """The samples of every step of one client in one round."""
    held, order = scenario.sites[client], seeds.generator(seed, "order", client, step)
    site = Site("", torch.empty(0), scenario.given[client], workload.classes)
    return [
        held[rows].numpy()
        for _ in range(workload.epochs)
        for rows in batches(site, workload.batch, order)
    ]


def main() -> None:
    """For trying an adapter alone."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.prepare")
    parser.add_argument("name", choices=list(WORKLOADS))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    workload = workloads.get(options.name)
    prepare(workload, options.folder, options.rounds or workload.rounds, options.seed)


if __name__ == "__main__":
    main()
