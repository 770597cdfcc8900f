"""One number in place of everything."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from flr.core.registry import register
from flr.scenario.attacks.common import Attack, Share


@register("constant", kind="attack", title="One number")
@dataclass(frozen=True)
class Constant(Attack):
    """Attackers answer with one number in place of every weight, by default near float32's largest.

    Equation:
        w_k <- value
    """

    clients: Share = 0.1
    value: float = 3e38

    def weights(
        self, sent: Tensor, received: Tensor, honest: Tensor, rng: torch.Generator
    ) -> Tensor:
        return torch.full_like(sent, self.value)
