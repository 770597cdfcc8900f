"""Noise on inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import torch
from annotated_types import Gt
from torch import Tensor

from flr.core import seeds
from flr.core.registry import register
from flr.scenario.noises.common import TransitionNoise


@register("features", kind="noise", title="Noise on inputs")
@dataclass(frozen=True)
class Features(TransitionNoise):
    """Labels stay right; the inputs of selected samples get Gaussian noise.

    `std` is its standard deviation, in units of the normalised inputs. The noise of a sample is
    drawn once, and is the same in every round.
    """

    std: Annotated[float, Gt(0)] = 1.0

    @property
    def level(self) -> float:
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
