"""Clients that mean harm: they answer with changed weights, or train on changed labels.

Exactly round(share * N) clients attack, in every round they are asked; the scenario's seed decides
which. Extra arrays that a method sends stay as they are, and so do buffers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Protocol

import numpy as np
import torch
from annotated_types import Ge, Gt, Le
from torch import Tensor

from flr import seeds
from flr.registry import register

Indices = np.ndarray[Any, np.dtype[np.int64]]
Share = Annotated[float, Ge(0), Le(1)]


class Attack(Protocol):
    """What an attacker does."""

    @property
    def clients(self) -> float:
        """The share of attackers."""

    @property
    def relabels(self) -> bool:
        """Whether labels are changed, and so the scenario."""

    def labels(self, given: Indices, classes: int) -> Indices:
        """What an attacker makes of the labels of its site."""

    def weights(self, sent: Tensor, received: Tensor, rng: torch.Generator) -> Tensor:
        """What an attacker answers in place of a trained parameter that was to be sent."""


class _Honest:
    """Labels and weights as they are."""

    @property
    def relabels(self) -> bool:
        """Only attacks on labels do."""
        return False

    def labels(self, given: Indices, classes: int) -> Indices:
        """As given."""
        return given

    def weights(self, sent: Tensor, received: Tensor, rng: torch.Generator) -> Tensor:
        """As trained."""
        return sent


@register("none", kind="attack", title="No attack")
@dataclass(frozen=True)
class NoAttack(_Honest):
    """Every client is honest."""

    @property
    def clients(self) -> float:
        """No client attacks."""
        return 0.0


@register("sign-flip", kind="attack", title="Sign flipping")
@dataclass(frozen=True)
class SignFlip(_Honest):
    """Attackers train as asked and answer with their update turned round and `scale` times as long.

    Equation:
        w_k <- w - scale * (w_k - w)
    """

    clients: Share = 0.1
    scale: Annotated[float, Gt(0)] = 4.0

    def weights(self, sent: Tensor, received: Tensor, rng: torch.Generator) -> Tensor:
        """Away from where the data point to."""
        return received - self.scale * (sent - received)


@register("gaussian", kind="attack", title="Gaussian noise")
@dataclass(frozen=True)
class Gaussian(_Honest):
    """Attackers answer with noise in place of their update.

    Equation:
        w_k <- w + std * N(0, 1)
    """

    clients: Share = 0.1
    std: Annotated[float, Gt(0)] = 10.0

    def weights(self, sent: Tensor, received: Tensor, rng: torch.Generator) -> Tensor:
        """Nothing of what was trained."""
        noise = torch.randn(received.shape, generator=rng, dtype=torch.float32)
        return received + (self.std * noise).to(received.dtype)


@register("label-flip", kind="attack", title="Label flipping")
@dataclass(frozen=True)
class LabelFlip(_Honest):
    """Attackers train on labels turned round, C - 1 - c for c; on top of whatever noise there is.

    The scenario holds the turned labels: its hash covers them, and they count as wrong.
    """

    clients: Share = 0.1

    @property
    def relabels(self) -> bool:
        """All labels of an attacker."""
        return True

    def labels(self, given: Indices, classes: int) -> Indices:
        """Only the middle class of an odd number stays."""
        return classes - 1 - given


def attackers(share: float, sites: int, seed: int) -> tuple[int, ...]:
    """Exactly round(share * N) clients, sorted."""
    order = seeds.numpy_generator(seed, "attack/clients").permutation(sites)
    return tuple(sorted(order[: round(share * sites)].tolist()))
