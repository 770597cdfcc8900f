"""Noise in place of an update."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from annotated_types import Gt
from torch import Tensor

from flr.core.registry import register
from flr.scenario.attacks.common import Attack, Share


@register("gaussian", kind="attack", title="Gaussian noise")
@dataclass(frozen=True)
class Gaussian(Attack):
    """Attackers answer with noise in place of their update.

    Equation:
        w_k <- w + std * N(0, 1)
    """

    clients: Share = 0.1
    std: Annotated[float, Gt(0)] = 10.0

    def weights(
        self, sent: Tensor, received: Tensor, honest: Tensor, rng: torch.Generator
    ) -> Tensor:
        noise = torch.randn(received.shape, generator=rng, dtype=torch.float32)
        return received + (self.std * noise).to(received.dtype)
