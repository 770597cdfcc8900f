"""Wrong labels, made on purpose: which sites, which samples, and what they become.

A share rho (`clients`) of the sites is noisy. A noisy site draws its rate r ~ U(tau, 1), tau being
the `floor`, and exactly int(r n) of its n samples are selected; what a selected sample becomes
depends on its true label only, by the row of a transition matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Protocol

import numpy as np
from pydantic import Field

from flr import seeds
from flr.registry import register
from flr.scenario import maps

Indices = np.ndarray[Any, np.dtype[np.int64]]
Floats = np.ndarray[Any, np.dtype[np.float64]]

Share = Annotated[float, Field(ge=0.0, le=1.0)]


class Noise(Protocol):
    """A kind of label noise."""

    @property
    def clients(self) -> float:
        """The share of noisy sites (rho)."""

    @property
    def floor(self) -> float:
        """The least rate of a noisy site (tau)."""

    def transition(self, classes: tuple[str, ...], noise_map: str | None) -> Floats:
        """C x C; row t has the probabilities of what a selected sample of true class t becomes.

        `noise_map` names the data set's own asymmetric map, if it has one.
        """


@register("none", kind="noise", title="No noise")
@dataclass(frozen=True)
class NoNoise:
    """Labels stay as they are, with whatever mistakes the data set has."""

    @property
    def clients(self) -> float:
        """No site is noisy."""
        return 0.0

    @property
    def floor(self) -> float:
        """Without meaning, as no site is noisy."""
        return 0.0

    def transition(self, classes: tuple[str, ...], noise_map: str | None) -> Floats:
        """The identity."""
        return np.eye(len(classes))


@register("symmetric", kind="noise", title="Symmetric noise")
@dataclass(frozen=True)
class Symmetric:
    """A selected sample gets a label drawn uniformly from all classes, or from all but its own.

    With the true class included (the paper's way) a site of rate r has about r (C - 1) / C wrong
    labels.
    """

    clients: Share = 1.0  # rho
    floor: Share = 0.0  # tau
    include_true: bool = True

    def transition(self, classes: tuple[str, ...], noise_map: str | None) -> Floats:
        """The same number everywhere, or everywhere but on the diagonal."""
        n = len(classes)
        if self.include_true:
            return np.full((n, n), 1 / n)
        return (1 - np.eye(n)) / (n - 1)


@register("asymmetric", kind="noise", title="Asymmetric noise")
@dataclass(frozen=True)
class Asymmetric:
    """A selected sample gets the label that its class is mistaken for; some classes have none.

    `map` is "auto" (the data set's own), a name (digits, cifar10, cifar100 for the next class of
    the same superclass, cifar100-block5), pairs of class names, or the new number of every class.
    """

    clients: Share = 1.0  # rho
    floor: Share = 0.0  # tau
    map: str | dict[str, str] | list[int] = "auto"

    def transition(self, classes: tuple[str, ...], noise_map: str | None) -> Floats:
        """A single 1 in every row."""
        return np.eye(len(classes))[maps.resolve(self.map, classes, noise_map)]


def flip(labels: Indices, transition: Floats, draws: Floats) -> Indices:
    """New labels of samples with these true labels, by their rows and uniform draws from [0, 1)."""
    classes = len(transition)
    cumulative = transition.cumsum(axis=1)
    cumulative /= cumulative[:, -1:]  # else rounding could leave a gap below 1
    # All rows on one line, row t from t to t + 1, so that one search serves every class.
    line = (cumulative + np.arange(classes)[:, None]).ravel()
    at = np.minimum(labels + draws, np.nextafter(labels + 1.0, 0.0))
    return np.asarray(np.searchsorted(line, at, side="right") - labels * classes, dtype=np.int64)


def corrupt(
    noise: Noise,
    sites: Sequence[Indices],
    labels: Indices,
    classes: tuple[str, ...],
    seed: int,
    noise_map: str | None = None,
) -> tuple[list[Indices], Floats]:
    """The labels as given at each site, and each site's nominal rate r (0 for clean sites).

    `labels` are the true ones of all samples. Sites draw from generators of their own: what
    happens at one depends on no other.
    """
    transition = noise.transition(classes, noise_map)
    given = labels[np.concatenate(sites)]
    sizes = np.array([len(samples) for samples in sites])
    ends = np.cumsum(sizes)
    nominal = np.zeros(len(sites))
    selected = [np.empty(0, dtype=np.int64)]
    draws = [np.empty(0)]
    order = seeds.numpy_generator(seed, "noise/clients").permutation(len(sites))
    for k in order[: round(noise.clients * len(sites))].tolist():
        rng = seeds.numpy_generator(seed, "noise", site=k)
        nominal[k] = noise.floor + (1 - noise.floor) * rng.random()
        chosen = rng.permutation(sizes[k])[: int(nominal[k] * sizes[k])]
        selected.append(ends[k] - sizes[k] + chosen)
        draws.append(rng.random(len(chosen)))
    where = np.concatenate(selected)
    given[where] = flip(given[where], transition, np.concatenate(draws))
    return np.split(given, ends[:-1]), nominal
