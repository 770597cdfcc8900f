"""Is the term's gradient negative at the true class early in training? Writes gradient-sign.json.

    export FLR_DATA=...                                        # CIFAR-10
    python -m benchmarks.studies.gradient_sign runs/gradient-sign    # about a minute for each seed

The paper: "In the early training phase, the c*-th entry of s is dominant. Setting alpha >= 0.5
results in a negative c*-th entry of g, since the server memorizes slower than clients." Here: the
laptop setting, FedAvg up to the end of the warm-up (round 8 of 50). Every noisy site then trains
the global model on its labels for one round; g is taken after each local epoch on its wrongly
labelled samples, with s the global model's prediction and m the local one's, as FLR has them that
early (beta = gamma = 0).
"""

from __future__ import annotations

import argparse
import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks import RESULTS
from benchmarks.studies.common import trained
from flr.config import parse
from flr.core.arrays import write_atomically
from flr.methods.flr import flr_gradient
from flr.models.model_file import SavedModel
from flr.simulation.build import load_data, load_scenario

FOUND = RESULTS / "gradient-sign.json"
SEEDS, ALPHAS = (1, 2, 3), (0.0, 0.25, 0.5, 0.75, 1.0)
ROUNDS = 8
SETTING: dict[str, Any] = {
    "preset": "laptop-cifar10",
    "data": {"name": "cifar10"},
    "method": "fedavg",
    "rounds": ROUNDS,
    "partition": {"kind": "iid"},
    "noise": {"kind": "symmetric", "clients": 0.8, "floor": 0.0},
    "eval": {"every": ROUNDS, "memorization_every": 0},
}


def main() -> None:
    """All seeds; a trained model is used again."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path, nargs="?", default=Path("runs/gradient-sign"))
    folder = parser.parse_args().folder
    torch.set_num_threads(1)
    shares = [measured(folder / str(seed), seed) for seed in SEEDS]
    by_alpha = {str(a): [round(share[a], 4) for share in shares] for a in ALPHAS}
    found = {"seeds": SEEDS, "rounds": ROUNDS, "negative_share": by_alpha}
    write_atomically(FOUND, json.dumps(found, indent=1) + "\n")


def measured(folder: Path, seed: int) -> dict[float, float]:
    """For each alpha, the share of wrongly labelled samples and epochs with a negative entry."""
    config = parse(SETTING | {"seed": seed})
    data = load_data(config)
    model = trained(folder, SETTING | {"seed": seed}, data).model()
    scenario = load_scenario(config, data)
    signs: dict[float, list[Tensor]] = {alpha: [] for alpha in ALPHAS}
    for index, given in zip(scenario.sites, scenario.given, strict=True):
        true, x = data.train.y[index], model.normalize(data.train.inputs[index])
        wrong = true != given
        if not wrong.any():
            continue
        s = predictions(model, x[wrong])
        for local in local_epochs(model, x, given, seed, config.train.batch):
            p = predictions(local, x[wrong])
            for alpha in ALPHAS:
                g = flr_gradient(p, p, alpha * s + (1 - alpha) * p, lam=1.0)  # CE's part is p - p
                signs[alpha].append(g.gather(1, true[wrong, None]) < 0)
    return {alpha: float(torch.cat(found).double().mean()) for alpha, found in signs.items()}


@torch.no_grad()
def predictions(model: SavedModel, x: Tensor) -> Tensor:
    """Of inputs that are normalised already."""
    return model.method.predict(model.networks.eval(), x).softmax(1)


def local_epochs(
    model: SavedModel, x: Tensor, y: Tensor, seed: int, batch: int, epochs: int = 5
) -> Iterator[SavedModel]:
    """The global model after each epoch of cross-entropy at one site, without augmentation."""
    local = copy.deepcopy(model)
    local.networks.train()
    order = torch.Generator().manual_seed(seed)
    sgd = torch.optim.SGD(local.networks.parameters(), lr=0.05, momentum=0.5)
    for _ in range(epochs):
        local.networks.train()
        for rows in torch.randperm(len(x), generator=order).split(batch):
            sgd.zero_grad()
            F.cross_entropy(local.networks[0](x[rows]), y[rows]).backward()
            sgd.step()
        yield local


if __name__ == "__main__":
    main()
