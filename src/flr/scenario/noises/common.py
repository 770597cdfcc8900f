"""What all noises share: which sites are noisy, which of their samples, and what these become.

A share rho (`clients`) of the sites is noisy. A noisy site draws its rate r ~ U(tau, 1), tau being
the `floor`, and exactly int(r n) of its n samples are selected; what a selected sample becomes
depends on its true label only, by the row of a transition matrix. With `ratio = "bernoulli"`, sites
and samples are selected by independent coins of these probabilities (Xu et al., CVPR 2022).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from flr.core import seeds
from flr.core.errors import ConfigError
from flr.data.dataset import NoiseMap, Ragged
from flr.data.train_test_split import Indices

Floats = np.ndarray[Any, np.dtype[np.float64]]

Share = Annotated[float, Field(ge=0.0, le=1.0)]
Ratio = Literal["exact", "bernoulli"]


def _no_inputs(_samples: Indices) -> Floats:
    raise ConfigError(
        "Expected the inputs of the data set for noise that looks at them; there are labels only. "
        "Give the inputs too, or use another [noise] kind."
    )


@dataclass(frozen=True)
class NoiseContext:
    """All that noise may look at."""

    sites: Sequence[Indices]  # each site's sample numbers; no sample is at two sites
    labels: Indices  # the true ones of all samples
    classes: tuple[str, ...]
    seed: int
    noise_map: NoiseMap | None = None  # the data set's own asymmetric map, if it has one
    inputs: Callable[[Indices], Floats] = _no_inputs  # sample numbers -> normalised flat rows
    numbers: Indices | None = None  # of the samples in the publisher's order, where there is one
    raters: Ragged | None = None  # the classes that people chose, by these numbers


@dataclass(frozen=True)
class Selected:
    """The samples that noise falls upon, all sites together."""

    site: Indices
    sample: Indices
    draw: Floats  # uniform from [0, 1)


class Noise:
    """A kind of noise; without changes, it leaves everything as it is.

    Example:
        >>> import numpy as np
        >>> from flr.plugin import Noise
        >>> class Everywhere(Noise):
        ...     def noisy(self, sites, rng):
        ...         return np.arange(sites)
        >>> Everywhere().noisy(3, np.random.default_rng(1)).tolist()
        [0, 1, 2]
    """

    @property
    def level(self) -> float:
        """Standard deviation of Gaussian noise on the selected samples' normalised inputs."""
        return 0.0

    def noisy(self, sites: int, rng: np.random.Generator) -> Indices:
        """The sites that noise falls upon."""
        return np.empty(0, dtype=np.int64)

    def rate(self, site: int, context: NoiseContext, rng: np.random.Generator) -> float:
        """The rate of one of them."""
        return 0.0

    def choose(
        self, samples: Indices, rate: float, context: NoiseContext, rng: np.random.Generator
    ) -> Indices:
        """The positions among a noisy site's samples that are selected; here all."""
        return np.arange(len(samples))

    def relabel(self, selected: Selected, context: NoiseContext) -> Indices:
        """The labels that selected samples are given."""
        return context.labels[selected.sample]


@dataclass(frozen=True)
class TransitionNoise(Noise):
    """Sites and rates by rho and tau, samples at random, labels by a transition matrix.

    Args:
        clients: The share of noisy sites (rho).
        floor: The lowest rate of a noisy site (tau).
        ratio: "exact": so many sites and samples; "bernoulli": each by a coin.

    Example:
        >>> import numpy as np
        >>> from flr.scenario.noises.common import TransitionNoise
        >>> class Swap(TransitionNoise):
        ...     def transition(self, classes, noise_map):
        ...         return np.eye(len(classes))[::-1]  # the first becomes the last
        >>> Swap(floor=0.4).transition(("a", "b"), None).tolist()
        [[0.0, 1.0], [1.0, 0.0]]
    """

    clients: Share = 1.0  # rho
    floor: Share = 0.0  # tau
    ratio: Ratio = field(default="exact", kw_only=True)

    def noisy(self, sites: int, rng: np.random.Generator) -> Indices:
        """Exactly round(rho N) sites, or each with probability rho."""
        if self.ratio == "bernoulli":
            return np.flatnonzero(rng.random(sites) < self.clients)
        return rng.permutation(sites)[: round(self.clients * sites)]

    def rate(self, site: int, context: NoiseContext, rng: np.random.Generator) -> float:
        """U(tau, 1)."""
        return float(self.floor + (1 - self.floor) * rng.random())

    def choose(
        self, samples: Indices, rate: float, context: NoiseContext, rng: np.random.Generator
    ) -> Indices:
        """Exactly int(r n) samples, or each with probability r."""
        return pick(len(samples), rate, self.ratio, rng)

    def relabel(self, selected: Selected, context: NoiseContext) -> Indices:
        """By the rows of the transition matrix."""
        transition = self.transition(context.classes, context.noise_map)
        return flip(context.labels[selected.sample], transition, selected.draw)

    def transition(self, classes: tuple[str, ...], noise_map: NoiseMap | None) -> Floats:
        """C x C; row t has the probabilities of what a selected sample of true class t becomes.

        `noise_map` is the data set's own asymmetric map, if it has one.
        """
        return np.eye(len(classes))


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


def corrupt(noise: Noise, context: NoiseContext) -> tuple[list[Indices], Floats, Floats]:
    """The labels as given at each site, each site's nominal rate r, levels of noise on inputs.

    Clean sites have the rate 0. Levels are standard deviations, sample by sample and site after
    site; there are none where noise leaves inputs alone. Sites draw from generators of their own:
    what happens at one depends on no other.
    """
    sites, seed = context.sites, context.seed
    nominal = np.zeros(len(sites))
    owners, samples, draws = [np.empty(0, np.int64)], [np.empty(0, np.int64)], [np.empty(0)]
    noisy = noise.noisy(len(sites), seeds.numpy_generator(seed, "noise/clients"))
    for k in np.sort(noisy).tolist():
        rng = seeds.numpy_generator(seed, "noise", site=k)
        nominal[k] = noise.rate(k, context, rng)
        chosen = sites[k][noise.choose(sites[k], nominal[k], context, rng)]
        owners.append(np.full(len(chosen), k))
        samples.append(chosen)
        draws.append(rng.random(len(chosen)))
    selected = Selected(np.concatenate(owners), np.concatenate(samples), np.concatenate(draws))
    given, levels = context.labels.copy(), np.zeros(len(context.labels))
    given[selected.sample] = noise.relabel(selected, context)
    levels[selected.sample] = noise.level
    everywhere = levels[np.concatenate(sites)] if noise.level else np.empty(0)
    return [given[own] for own in sites], nominal, everywhere
