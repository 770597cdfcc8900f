"""How long runs will take here: from like cells that were timed, else from a few timed steps."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
import torch.nn.functional as F

from flr.assemble import threads
from flr.config import Config
from flr.errors import DataError
from flr.reproduce import cells

_STEPS = 5
_SHAPES = {"cifar10": (3, 32, 32), "cifar100": (3, 32, 32), "clothing1m": (3, 224, 224)}
_SAMPLES = {"cifar10": 50_000, "cifar100": 50_000, "clothing1m": 1_000_000}


def hours(configs: Iterable[Config], folder: Path, workers: int) -> float:
    """The time of all runs, one after the other."""
    known = timed(folder)
    step: dict[str, float] = {}
    total = 0.0
    for config in configs:
        key = json.dumps(_like(cells.identity(config)), sort_keys=True)
        if key in known:
            total += fmean(known[key])
            continue
        network = f"{config.train.model.short()} {config.data.source.name} {config.train.batch}"
        if network not in step:
            step[network] = seconds_of_a_step(config)
        total += step[network] * steps(config) / min(workers, asked(config))
    return total / 3600


def timed(folder: Path) -> dict[str, list[float]]:
    """Seconds of finished cells, by all that decides how long they take."""
    found: dict[str, list[float]] = {}
    for path in sorted((folder / "cells").glob("*.json")):
        try:
            cell = cells.read(folder, path.stem)
        except DataError:  # said when it is needed
            continue
        if cell is not None:
            key = json.dumps(_like(cell.content["config"]), sort_keys=True)
            found.setdefault(key, []).append(float(cell.summary["seconds"]))
    return found


def steps(config: Config) -> int:
    """Batches of all networks, all clients and rounds; extra passes of a method do not count."""
    samples = config.data.train or _SAMPLES.get(config.data.source.name, 50_000)
    sites: int = config.partition.build().sites
    batches = math.ceil(samples / sites / config.train.batch)
    networks = config.build_method().models
    return config.rounds * asked(config) * config.train.epochs * batches * networks


def asked(config: Config) -> int:
    """Clients of a round."""
    return config.train.asked(config.partition.build().sites)


def seconds_of_a_step(config: Config) -> float:
    """One forward and backward pass of the network on this machine's device."""
    shape = _SHAPES.get(config.data.source.name, (3, 32, 32))
    device = torch.device(config.train.device)
    network = config.train.model.build()(shape, 10).to(device)
    x = torch.zeros(config.train.batch, *shape, device=device)
    y = torch.zeros(config.train.batch, dtype=torch.long, device=device)
    taken = []
    with threads(config.train.threads):
        for _ in range(_STEPS):
            started = time.perf_counter()
            F.cross_entropy(network(x), y).backward()
            if device.type == "cuda":
                torch.cuda.synchronize()
            taken.append(time.perf_counter() - started)
    return min(taken)  # the first one warms up, and others share the machine


def _like(identity: dict[str, Any]) -> dict[str, Any]:
    """A config without what hardly changes the time: the seed and the labels' noise."""
    return {key: value for key, value in identity.items() if key not in ("seed", "noise")}
