"""A federation of six sites in float64 that shares no code with `flr.methods`.

What newer methods have in common: training by hand, prior adjustment, detection, and two rules of
the server. test_second_text.py has the methods themselves.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.mixture import GaussianMixture
from torch import Tensor, nn

import flr
from flr.config import parse
from flr.scenario import scenario
from flr.simulation import build

Weights = dict[str, Tensor]
ROUNDS, T1, CLASSES = 8, 2, 3
LR, MOMENTUM, DECAY = 0.1, 0.5, 1e-3
CONFIG: dict[str, Any] = {
    "rounds": ROUNDS,
    "workers": 1,
    "partition": {"kind": "dirichlet", "clients": 6, "alpha": 3.0},
    "noise": {"kind": "symmetric", "clients": 0.5, "floor": 0.5, "include_true": False},
    "train": {
        "model": {"name": "mlp", "hidden": 24, "norm": "batch"},
        "participation": 1.0,
        "epochs": 2,
        "batch": 1000,
        "lr": LR,
        "momentum": MOMENTUM,
        "weight_decay": DECAY,
    },
    "eval": {"every": 0, "memorization_every": 0},
}


def blobs() -> tuple[np.ndarray, ...]:
    """Three clouds of points, which a small network can tell apart."""
    rng = np.random.default_rng(3)
    y = np.arange(480) % CLASSES
    x = rng.normal(size=(480, 6)) + 2.5 * np.eye(CLASSES, 6)[y]
    return x[:420].astype("float32"), y[:420], x[420:].astype("float32"), y[420:]


class Second:
    """The federation as the second text sees it: sites, weights, and what server and sites keep."""

    def __init__(self, run: flr.Run) -> None:
        config = parse({**CONFIG, "method": "fedavg"})
        dataset = build.load_data(config, blobs())
        table = build.make_sites(dataset, scenario.load(run.folder / "scenario.safetensors"))
        self.sites = [(table[k].x.double(), table[k].y) for k in range(6)]
        self.net = build.first_networks(config, dataset.task_spec())[0].double()
        self.w: Weights = copy.deepcopy(self.net.state_dict())
        self.n = torch.tensor([len(y) for _, y in self.sites]).double()
        self.counts = torch.stack([torch.bincount(y, minlength=CLASSES) for _, y in self.sites])

    def of(self, w: Weights, training: bool = False) -> nn.Module:
        """The network with these weights."""
        net = copy.deepcopy(self.net)
        net.load_state_dict(w)
        return net.train(training)

    @torch.no_grad()
    def said(self, w: Weights, k: int) -> Tensor:
        """Logits of a site's samples in eval mode."""
        return self.of(w)(self.sites[k][0])

    def trained(
        self, w: Weights, k: int, loss: Callable[[Tensor], Tensor], epochs: int = 2
    ) -> Weights:
        """SGD with momentum and L2 by hand; one step is an epoch."""
        net = self.of(w, training=True)
        velocity: dict[str, Tensor] = {}
        for _ in range(epochs):
            own = dict(net.named_parameters())
            gradients = torch.autograd.grad(loss(net(self.sites[k][0])), list(own.values()))
            with torch.no_grad():
                for (name, value), gradient in zip(own.items(), gradients, strict=True):
                    step = gradient + DECAY * value
                    velocity[name] = MOMENTUM * velocity.get(name, torch.zeros(())) + step
                    value -= LR * velocity[name]
        return copy.deepcopy(net.state_dict())

    def mean(self, models: list[Weights], weights: Tensor) -> Weights:
        """Integers are cut off."""
        share = (weights / weights.sum()).tolist()

        def average(name: str) -> Tensor:
            return torch.stack([p * m[name] for p, m in zip(share, models, strict=True)]).sum(0)

        return {name: average(name).to(v.dtype) for name, v in models[0].items()}

    def adjusted(self, k: int, z: Tensor, least: int = 0) -> Tensor:
        """log softmax(z + log pi), nothing for absent classes."""
        prior = self.counts[k].clamp(min=least).double() / self.n[k]
        a = (z + prior.log()).log_softmax(1)
        return torch.where(prior > 0, a, torch.zeros(()))

    def adjusted_ce(self, k: int, z: Tensor) -> Tensor:
        return -self.adjusted(k, z)[torch.arange(len(z)), self.sites[k][1]].mean()

    def noisy_by_losses(self) -> list[bool]:
        """Nine mixtures over scaled losses of each class."""
        rows = np.full((6, CLASSES), np.nan)
        for k, (_, y) in enumerate(self.sites):
            losses = F.cross_entropy(self.said(self.w, k), y, reduction="none")
            for c in y.unique():
                rows[k, c] = losses[y == c].mean()
        rows = np.where(np.isnan(rows), np.nanmin(rows, 0), rows)
        rows = (rows - rows.min(0)) / (rows.max(0) - rows.min(0))
        sets = []
        for seed in range(9):
            mixture = GaussianMixture(2, random_state=seed).fit(rows)
            sets.append(tuple(mixture.predict(rows) == mixture.means_.sum(1).argmax()))
        return list(max(sets, key=sets.count))

    def by_distance(self, models: list[Weights], noisy: list[bool]) -> Weights:
        """DaAgg."""

        def apart(one: Weights, other: Weights) -> float:
            floats = [name for name, v in one.items() if v.is_floating_point()]
            return sum(float((one[name] - other[name]).norm()) for name in floats)

        clean = [m for m, is_noisy in zip(models, noisy, strict=True) if not is_noisy]
        D = torch.tensor(  # noqa: N806 - the paper's letter
            [
                min(apart(m, other) for other in clean) if is_noisy else 0.0
                for m, is_noisy in zip(models, noisy, strict=True)
            ]
        ).double()
        return self.mean(models, self.n * (-D / D.max()).exp())

    def medians(self, models: list[Weights]) -> Weights:
        """MaskedOptim's rule at the server."""
        joined = self.mean(models, self.n)
        for name, value in joined.items():
            if not value.is_floating_point():
                continue
            points = torch.stack([m[name] for m in models])
            m = points.mean(0)
            for _ in range(10):
                lengths = [max(float((p - m).norm()), 1e-5) for p in points]
                far = torch.tensor([1 / length for length in lengths]).double()
                new = torch.tensordot(far / far.sum(), points, 1)
                if (new - m).norm() < 1e-5:
                    break
                m = new
            joined[name] = m
        return joined
