"""Is the term's gradient negative at the true class early? Writes gradient-sign-SCALE.json.

    export FLR_DATA=...                                        # CIFAR-10
    python -m benchmarks.studies.gradient_sign laptop          # about a minute for each seed
    python -m benchmarks.studies.gradient_sign features

The paper: "In the early training phase, the c*-th entry of s is dominant. Setting alpha >= 0.5
results in a negative c*-th entry of g, since the server memorizes slower than clients." Here: a
scale's setting, FedAvg up to the end of the warm-up, a sixth of the rounds. Every noisy site then
trains the global model on its labels for one round; g is taken after each local epoch on its
wrongly labelled samples, with s the global model's prediction and m the local one's, as FLR has
them that early (beta = gamma = 0).
"""

from __future__ import annotations

import argparse
import copy
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks import RESULTS
from benchmarks.studies.common import trained
from flr.config import Config, parse
from flr.core.arrays import write_atomically
from flr.methods.flr import flr_gradient
from flr.models.model_file import SavedModel
from flr.paper.claims.within_runs import GRADIENT
from flr.simulation.build import load_data, load_scenario

ALPHAS = (0.0, 0.25, 0.5, 0.75, 1.0)
SEEDS = {"laptop": (1, 2, 3), "features": (1, 2, 3, 4, 5)}
ROUNDS = {"laptop": 8, "features": 10}  # a sixth of 50 and 60


def main() -> None:
    """All seeds; a trained model is used again."""
    parser = argparse.ArgumentParser()
    parser.add_argument("scale", choices=SEEDS)
    parser.add_argument("folder", type=Path, nargs="?", default=Path("runs/gradient-sign"))
    asked = parser.parse_args()
    torch.set_num_threads(1)
    seeds = SEEDS[asked.scale]
    folders = (asked.folder / f"{asked.scale}-{seed}" for seed in seeds)
    pairs = zip(folders, seeds, strict=True)
    shares = [measured(folder, setting(asked.scale, seed)) for folder, seed in pairs]
    by_alpha = {str(a): [round(share[a], 4) for share in shares] for a in ALPHAS}
    found = {"seeds": seeds, "rounds": ROUNDS[asked.scale], "negative_share": by_alpha}
    path = RESULTS / GRADIENT.format(asked.scale)
    write_atomically(path, json.dumps(found, indent=1) + "\n")


def setting(scale: str, seed: int) -> dict[str, Any]:
    """FedAvg, i.i.d. (0.8, 0.0), up to the end of the warm-up."""
    return {
        "preset": f"{scale}-cifar10",
        "data": {"name": "cifar10"},
        "method": "fedavg",
        "rounds": ROUNDS[scale],
        "partition": {"kind": "iid"},
        "noise": {"kind": "symmetric", "clients": 0.8, "floor": 0.0},
        "eval": {"every": ROUNDS[scale], "memorization_every": 0},
        "seed": seed,
    }


def measured(folder: Path, tree: dict[str, Any]) -> dict[float, float]:
    """For each alpha, the share of wrongly labelled samples and epochs with a negative entry."""
    config = parse(tree)
    data = load_data(config)
    model = trained(folder, tree, data).model()
    scenario = load_scenario(config, data)
    signs: dict[float, list[Tensor]] = {alpha: [] for alpha in ALPHAS}
    for index, given in zip(scenario.sites, scenario.given, strict=True):
        true, x = data.train.y[index], model.normalize(data.train.inputs[index])
        wrong = true != given
        if not wrong.any():
            continue
        s = predictions(model, x[wrong])
        for local in local_epochs(model, x, given, config):
            p = predictions(local, x[wrong])
            for alpha in ALPHAS:
                g = flr_gradient(p, p, alpha * s + (1 - alpha) * p, lam=1.0)  # CE's part is p - p
                signs[alpha].append(g.gather(1, true[wrong, None]) < 0)
    return {alpha: float(torch.cat(found).double().mean()) for alpha, found in signs.items()}


@torch.no_grad()
def predictions(model: SavedModel, x: Tensor) -> Tensor:
    """Of inputs that are normalised already."""
    return model.method.predict(model.networks.eval(), x).softmax(1)


def local_epochs(model: SavedModel, x: Tensor, y: Tensor, config: Config) -> Iterator[SavedModel]:
    """The global model after each epoch of cross-entropy at one site, without augmentation."""
    local = replace(model, networks=copy.deepcopy(model.networks))
    local.networks.train()
    order = torch.Generator().manual_seed(config.seed)
    train = config.train
    sgd = torch.optim.SGD(local.networks.parameters(), lr=train.lr, momentum=train.momentum)
    for _ in range(train.epochs):
        local.networks.train()
        for rows in torch.randperm(len(x), generator=order).split(train.batch):
            sgd.zero_grad()
            F.cross_entropy(local.networks[0](x[rows]), y[rows]).backward()
            sgd.step()
        yield local


if __name__ == "__main__":
    main()
