"""Wrong labels, made on purpose: which sites, which samples, and what they become.

A share rho (`clients`) of the sites is noisy. A noisy site draws its rate r ~ U(tau, 1), tau being
the `floor`, and exactly int(r n) of its n samples are struck; what a struck sample becomes
depends on its true label only, by the row of a transition matrix. With `ratio = "bernoulli"`, sites
and samples are struck by independent coins of these probabilities instead (Xu et al., CVPR 2022).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Protocol

import numpy as np
from pydantic import Field

from flr import seeds
from flr.data.dataset import NoiseMap
from flr.errors import ConfigError
from flr.registry import register
from flr.scenario import maps

Indices = np.ndarray[Any, np.dtype[np.int64]]
Floats = np.ndarray[Any, np.dtype[np.float64]]

Share = Annotated[float, Field(ge=0.0, le=1.0)]
Ratio = Literal["exact", "bernoulli"]


def _no_inputs(_samples: Indices) -> Floats:
    raise ConfigError(
        "Expected the inputs of the data set for noise that looks at them; there are labels only. "
        "Give the inputs too, or use another [noise] kind."
    )


@dataclass(frozen=True)
class World:
    """All that noise may look at."""

    labels: Indices  # the true ones of all samples
    classes: tuple[str, ...]
    sites: int
    seed: int
    noise_map: NoiseMap | None = None  # the data set's own asymmetric map, if it has one
    inputs: Callable[[Indices], Floats] = _no_inputs  # sample numbers -> normalised flat rows
    numbers: Indices | None = None  # of the samples in the publisher's order, where there is one


@dataclass(frozen=True)
class Struck:
    """The samples that noise falls upon, all sites together."""

    site: Indices
    sample: Indices
    draw: Floats  # uniform from [0, 1)


class Noise(Protocol):
    """A kind of noise."""

    def noisy(self, sites: int, rng: np.random.Generator) -> Indices:
        """The sites that noise falls upon."""

    def rate(self, site: int, world: World, rng: np.random.Generator) -> float:
        """The rate of one of them."""

    def choose(
        self, samples: Indices, rate: float, world: World, rng: np.random.Generator
    ) -> Indices:
        """The positions among a site's samples that are struck."""

    def relabel(self, struck: Struck, world: World) -> Indices:
        """The labels that struck samples are given."""

    @property
    def level(self) -> float:
        """Standard deviation of Gaussian noise on the struck samples' normalised inputs."""


@dataclass(frozen=True)
class Drawn:
    """Sites and rates by rho and tau, a uniform choice of samples, labels left as they are."""

    clients: Share = 1.0  # rho
    floor: Share = 0.0  # tau
    ratio: Ratio = field(default="exact", kw_only=True)

    @property
    def level(self) -> float:
        """Inputs stay as they are."""
        return 0.0

    def noisy(self, sites: int, rng: np.random.Generator) -> Indices:
        """Exactly round(rho N) sites, or each with probability rho."""
        if self.ratio == "bernoulli":
            return np.flatnonzero(rng.random(sites) < self.clients)
        return rng.permutation(sites)[: round(self.clients * sites)]

    def rate(self, site: int, world: World, rng: np.random.Generator) -> float:
        """U(tau, 1)."""
        return float(self.floor + (1 - self.floor) * rng.random())

    def choose(
        self, samples: Indices, rate: float, world: World, rng: np.random.Generator
    ) -> Indices:
        """Exactly int(r n) samples, or each with probability r."""
        return pick(len(samples), rate, self.ratio, rng)

    def relabel(self, struck: Struck, world: World) -> Indices:
        """By the rows of the transition matrix."""
        transition = self.transition(world.classes, world.noise_map)
        return flip(world.labels[struck.sample], transition, struck.draw)

    def transition(self, classes: tuple[str, ...], noise_map: NoiseMap | None) -> Floats:
        """C x C; row t has the probabilities of what a struck sample of true class t becomes.

        `noise_map` is the data set's own asymmetric map, if it has one.
        """
        return np.eye(len(classes))


@register("none", kind="noise", title="No noise")
@dataclass(frozen=True)
class NoNoise:
    """Labels stay as they are, with whatever mistakes the data set has."""

    @property
    def level(self) -> float:
        """Inputs stay as they are."""
        return 0.0

    def noisy(self, sites: int, rng: np.random.Generator) -> Indices:
        """No site."""
        return np.empty(0, dtype=np.int64)

    def rate(self, site: int, world: World, rng: np.random.Generator) -> float:
        """Without meaning, as no site is noisy."""
        return 0.0

    def choose(
        self, samples: Indices, rate: float, world: World, rng: np.random.Generator
    ) -> Indices:
        """No sample."""
        return np.empty(0, dtype=np.int64)

    def relabel(self, struck: Struck, world: World) -> Indices:
        """The true labels."""
        return world.labels[struck.sample]


@register("symmetric", kind="noise", title="Symmetric noise")
@dataclass(frozen=True)
class Symmetric(Drawn):
    """A struck sample gets a label drawn uniformly from all classes, or from all but its own.

    With the true class included (the paper's way) a site of rate r has about r (C - 1) / C wrong
    labels.
    """

    include_true: bool = True

    def transition(self, classes: tuple[str, ...], noise_map: NoiseMap | None) -> Floats:
        """The same number everywhere, or everywhere but on the diagonal."""
        n = len(classes)
        if self.include_true:
            return np.full((n, n), 1 / n)
        return (1 - np.eye(n)) / (n - 1)


@register("asymmetric", kind="noise", title="Asymmetric noise")
@dataclass(frozen=True)
class Asymmetric(Drawn):
    """A struck sample gets the label that its class is mistaken for; some classes have none.

    `map` is "auto" (the data set's own), a name (digits, cifar10, cifar100 for the next class of
    the same superclass, cifar100-block5), pairs of class names, or the new number of every class.
    """

    map: str | dict[str, str] | list[int] = "auto"

    def transition(self, classes: tuple[str, ...], noise_map: NoiseMap | None) -> Floats:
        """A single 1 in every row."""
        return np.eye(len(classes))[maps.resolve(self.map, classes, noise_map)]


@register("pair", kind="noise", title="Pair noise", paper="Han et al., NeurIPS 2018", year=2018)
@dataclass(frozen=True)
class Pair(Drawn):
    """A struck sample of class y gets the next one, y + 1 modulo C: every class is mistaken."""

    def transition(self, classes: tuple[str, ...], noise_map: NoiseMap | None) -> Floats:
        """A circle through all classes."""
        return np.roll(np.eye(len(classes)), 1, axis=1)


def pick(n: int, rate: float, ratio: Ratio, rng: np.random.Generator) -> Indices:
    """Exactly int(rate n) of n positions, all equally likely, or each with probability `rate`."""
    if ratio == "bernoulli":
        return np.flatnonzero(rng.random(n) < rate)
    return rng.permutation(n)[: int(rate * n)]


def flip(labels: Indices, transition: Floats, draws: Floats) -> Indices:
    """New labels of samples with these true labels, by their rows and uniform draws from [0, 1)."""
    classes = len(transition)
    cumulative = transition.cumsum(axis=1)
    cumulative /= cumulative[:, -1:]  # else rounding could leave a gap below 1
    # All rows on one line, row t from t to t + 1, so that one search serves every class.
    line = (cumulative + np.arange(classes)[:, None]).ravel()
    at = np.minimum(labels + draws, np.nextafter(labels + 1.0, 0.0))
    return np.asarray(np.searchsorted(line, at, side="right") - labels * classes, dtype=np.int64)


def strike(noise: Noise, sites: Sequence[Indices], world: World) -> tuple[Struck, Floats]:
    """What noise falls upon, and each site's nominal rate.

    Sites draw from generators of their own: what happens at one depends on no other.
    """
    nominal = np.zeros(len(sites))
    owners = [np.empty(0, dtype=np.int64)]
    samples = [np.empty(0, dtype=np.int64)]
    draws = [np.empty(0)]
    noisy = noise.noisy(len(sites), seeds.numpy_generator(world.seed, "noise/clients"))
    for k in np.sort(noisy).tolist():
        rng = seeds.numpy_generator(world.seed, "noise", site=k)
        nominal[k] = noise.rate(k, world, rng)
        chosen = sites[k][noise.choose(sites[k], nominal[k], world, rng)]
        owners.append(np.full(len(chosen), k))
        samples.append(chosen)
        draws.append(rng.random(len(chosen)))
    struck = Struck(np.concatenate(owners), np.concatenate(samples), np.concatenate(draws))
    return struck, nominal


def corrupt(
    noise: Noise,
    sites: Sequence[Indices],
    labels: Indices,
    classes: tuple[str, ...],
    seed: int,
    noise_map: NoiseMap | None = None,
    inputs: Callable[[Indices], Floats] = _no_inputs,
    numbers: Indices | None = None,
) -> tuple[list[Indices], Floats]:
    """The labels as given at each site, and each site's nominal rate r (0 for clean sites).

    `labels` are the true ones of all samples.
    """
    world = World(labels, classes, len(sites), seed, noise_map, inputs, numbers)
    struck, nominal = strike(noise, sites, world)
    given = labels.copy()
    given[struck.sample] = noise.relabel(struck, world)  # no sample is at two sites
    return [given[samples] for samples in sites], nominal


def input_levels(
    noise: Noise, sites: Sequence[Indices], labels: Indices, classes: tuple[str, ...], seed: int
) -> Floats:
    """Standard deviation of the noise on each sample's inputs, site after site; empty for none."""
    if noise.level == 0:
        return np.empty(0)
    struck, _ = strike(noise, sites, World(labels, classes, len(sites), seed))
    levels = np.zeros(len(labels))
    levels[struck.sample] = noise.level
    return levels[np.concatenate(sites)]
