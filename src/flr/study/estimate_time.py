"""How long runs will take here: from like cells that were timed, else from a few timed steps."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F

from flr.config import Config
from flr.core.arrays import canonical_json
from flr.core.errors import DataError
from flr.simulation.build import threads
from flr.study import results

_STEPS = 20


class Sizes(NamedTuple):
    """What of the data decides how long a step takes, and how many there are."""

    shape: tuple[int, ...]
    classes: int
    samples: int


SizesOf = Callable[[Config], Sizes]

_SHAPES = {"cifar10": (3, 32, 32), "cifar100": (3, 32, 32), "clothing1m": (3, 224, 224)}
_FEATURES = {"efficientnet-lite0": 1280, "minilm": 384}
_CLASSES = {"cifar100": 100, "clothing1m": 14}
_SAMPLES = {"cifar10": 50_000, "cifar100": 50_000, "clothing1m": 1_000_000}


def guessed(config: Config) -> Sizes:
    """By the name of the data set, without reading it."""
    name = config.data.source.name
    shape: tuple[int, ...] = _SHAPES.get(name, (3, 32, 32))
    if config.data.backbone is not None:
        shape = (_FEATURES.get(config.data.backbone.name, 1280),)
    return Sizes(shape, _CLASSES.get(name, 10), config.data.train or _SAMPLES.get(name, 50_000))


def hours(
    configs: Iterable[Config], folder: Path, workers: int, sizes_of: SizesOf = guessed
) -> float:
    """The time of all runs, one after the other."""
    known = timed(folder)
    step: dict[str, float] = {}
    total = 0.0
    for config in configs:
        like = _like(results.identity(config))
        if like in known:
            total += fmean(known[like])
            continue
        network = f"{config.train.model.short()} {config.data.source.name} {config.train.batch}"
        if network not in step:
            step[network] = seconds_of_a_step(config, sizes_of(config))
        asked = config.train.asked(_sites(config))
        total += step[network] * steps(config, sizes_of(config).samples) / min(workers, asked)
    return total / 3600


def timed(folder: Path) -> dict[str, list[float]]:
    """Seconds of finished cells, by all that decides how long they take."""
    found: dict[str, list[float]] = {}
    for name in results.names(folder):
        with suppress(DataError):  # said when the cell is needed
            if cell := results.read(folder, name):
                like = _like(cell.content["config"])
                found.setdefault(like, []).append(float(cell.summary["seconds"]))
    return found


def steps(config: Config, samples: int) -> int:
    """Batches of all networks, all clients and rounds; extra passes of a method do not count."""
    sites = _sites(config)
    batches = math.ceil(samples / sites / config.train.batch)
    networks = config.build_method().traits.networks
    return config.rounds * config.train.asked(sites) * config.train.epochs * batches * networks


def _sites(config: Config) -> int:
    """A guess where only the data set says how many sites it names."""
    found: int | None = config.partition.build().sites
    return 4 if found is None else found


def seconds_of_a_step(config: Config, sizes: Sizes) -> float:
    """One forward and backward pass of the network on this machine's device."""
    device = torch.device(config.train.main_device)
    network = config.train.model.build()(sizes.shape, sizes.classes).to(device)
    x = torch.zeros(config.train.batch, *sizes.shape, device=device)
    y = torch.zeros(config.train.batch, dtype=torch.long, device=device)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.0, momentum=0.5)
    taken = []
    with threads(config.train.threads):
        for _ in range(_STEPS):
            started = time.perf_counter()
            F.cross_entropy(network(x), y).backward()
            optimizer.step()
            if device.type == "cuda":
                torch.cuda.synchronize()
            taken.append(time.perf_counter() - started)
    return min(taken)  # the first one warms up, and others share the machine


def _like(identity: Mapping[str, Any]) -> str:
    """A config without what hardly changes the time: the seed and the labels' noise."""
    return canonical_json({k: v for k, v in identity.items() if k not in ("seed", "noise")})
