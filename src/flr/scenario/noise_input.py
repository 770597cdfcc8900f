"""Noise that looks at inputs, or falls on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from annotated_types import Gt
from torch import Tensor

from flr import seeds
from flr.registry import register
from flr.scenario.noise import Drawn, Floats, Indices, Struck, World

CHUNK = 512  # samples read at a time
SPREAD = 0.1  # standard deviation of the samples' rates around their site's, as Xia et al. have it


@register(
    "instance",
    kind="noise",
    title="Instance-dependent noise",
    paper="Xia et al., NeurIPS 2020",
    year=2020,
)
@dataclass(frozen=True)
class Instance(Drawn):
    """Which samples are struck and what they become depends on what they look like.

    Equation:
        q_i = r + 0.1 z_i, cut to [0, 1];   z_i = <x_i, v>, standardised at the site
        struck: int(r n) samples, drawn one after another with weights q_i
        new label c != y_i with probability softmax_c(<x_i, w_yc>)

    v and all w_yc are drawn from N(0, 1) and shared by the sites. With `ratio = "bernoulli"` each
    sample is struck with probability q_i.

    Differs: the authors draw q_i from a truncated normal distribution, whatever x_i is.
    """

    def choose(
        self, samples: Indices, rate: float, world: World, rng: np.random.Generator
    ) -> Indices:
        """Samples that look easy to mistake are struck more often."""
        q = flip_rates(project(world, samples, columns=1, number=0)[:, 0], rate)
        if self.ratio == "bernoulli":
            return np.flatnonzero(rng.random(len(q)) < q)
        return weighted_choice(q, int(rate * len(q)), rng)

    def relabel(self, struck: Struck, world: World) -> Indices:
        """Class after class, as each has its own projections."""
        true = world.labels[struck.sample]
        new = true.copy()
        for label in np.unique(true).tolist():
            rows = np.flatnonzero(true == label)
            logits = project(world, struck.sample[rows], len(world.classes), number=label + 1)
            new[rows] = other_class(logits, label, struck.draw[rows])
        return new


def project(world: World, samples: Indices, columns: int, number: int) -> Floats:
    """n x columns: inputs times a matrix of N(0, 1) that belongs to this number."""
    width = world.inputs(samples[:1]).shape[1]
    rng = seeds.numpy_generator(world.seed, "noise/instance", site=number)
    matrix = rng.standard_normal((width, columns))
    chunks = np.split(samples, range(CHUNK, len(samples), CHUNK))
    return np.concatenate([world.inputs(chunk) @ matrix for chunk in chunks])


def flip_rates(scores: Floats, rate: float) -> Floats:
    """Rates around `rate` that grow with the score; scores that are all alike give equal rates."""
    deviation = scores.std()
    standard = (scores - scores.mean()) / (deviation if deviation > 0 else 1.0)
    return np.asarray(np.clip(rate + SPREAD * standard, 0.0, 1.0))


def weighted_choice(weights: Floats, count: int, rng: np.random.Generator) -> Indices:
    """So many different positions, drawn one after another with these weights.

    The largest keys log(u) / weight are such a draw (Efraimidis and Spirakis, 2006).
    """
    with np.errstate(divide="ignore"):
        keys = np.log(1.0 - rng.random(len(weights))) / weights
    return np.argsort(-keys, kind="stable")[:count]


def other_class(logits: Floats, own: int, draws: Floats) -> Indices:
    """Classes drawn by the softmax of each row, the class `own` excluded."""
    logits = logits.copy()
    logits[:, own] = -np.inf
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    cumulative = weights.cumsum(axis=1)
    below = cumulative <= draws[:, None] * cumulative[:, -1:]
    last = len(logits[0]) - 1 - (weights[:, ::-1] > 0).argmax(axis=1)  # rounding may reach too far
    return np.asarray(np.minimum(below.sum(axis=1), last), dtype=np.int64)


@register("features", kind="noise", title="Noise on inputs")
@dataclass(frozen=True)
class Features(Drawn):
    """Labels stay right; the inputs of struck samples get Gaussian noise.

    `std` is its standard deviation, in units of the normalised inputs. The noise of a sample is
    drawn once, and is the same in every round.
    """

    std: Annotated[float, Gt(0)] = 1.0

    @property
    def level(self) -> float:
        """The same for all struck samples."""
        return self.std


def blur(x: Tensor, sites: Sequence[Tensor], levels: Sequence[Tensor], seed: int) -> Tensor:
    """Normalised inputs with each site's noise on them; sites draw for themselves."""
    x = x.clone()
    for k, (samples, level) in enumerate(zip(sites, levels, strict=True)):
        rows = level.nonzero().flatten()
        if len(rows):
            rng = seeds.generator(seed, "features", site=k)
            noise = torch.randn(len(rows), *x.shape[1:], generator=rng)
            x[samples[rows]] += noise * level[rows].view(-1, *[1] * (x.dim() - 1)).to(x.dtype)
    return x
