"""Noise that depends on what a sample looks like."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flr.core import seeds
from flr.core.registry import register
from flr.data.train_test_split import Indices
from flr.scenario.noises.common import Floats, NoiseContext, Selected, TransitionNoise

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
class Instance(TransitionNoise):
    """Which samples are selected and what they become depends on what they look like.

    Equation:
        q_i = r + 0.1 z_i, cut to [0, 1];   z_i = <x_i, v>, standardised at the site
        selected: int(r n) samples, drawn one after another with weights q_i
        new label c != y_i with probability softmax_c(<x_i, w_yc>)

    v and all w_yc are drawn from N(0, 1) and shared by the sites. With `ratio = "bernoulli"` each
    sample is selected with probability q_i.

    Differs: the authors draw q_i from a truncated normal distribution, whatever x_i is.
    """

    def choose(
        self, samples: Indices, rate: float, context: NoiseContext, rng: np.random.Generator
    ) -> Indices:
        """Samples that look easy to mistake are selected more often."""
        q = flip_rates(project(context, samples, columns=1, number=0)[:, 0], rate)
        if self.ratio == "bernoulli":
            return np.flatnonzero(rng.random(len(q)) < q)
        return weighted_choice(q, int(rate * len(q)), rng)

    def relabel(self, selected: Selected, context: NoiseContext) -> Indices:
        """Class after class, as each has its own projections."""
        true = context.labels[selected.sample]
        new = true.copy()
        for label in np.unique(true).tolist():
            rows = np.flatnonzero(true == label)
            logits = project(context, selected.sample[rows], len(context.classes), number=label + 1)
            new[rows] = other_class(logits, label, selected.draw[rows])
        return new


def project(context: NoiseContext, samples: Indices, columns: int, number: int) -> Floats:
    """n x columns: inputs times a matrix of N(0, 1) that belongs to this number."""
    width = context.inputs(samples[:1]).shape[1]
    rng = seeds.numpy_generator(context.seed, "noise/instance", site=number)
    matrix = rng.standard_normal((width, columns))
    chunks = np.split(samples, range(CHUNK, len(samples), CHUNK))
    return np.concatenate([context.inputs(chunk) @ matrix for chunk in chunks])


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
