"""Updates that point the other way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from annotated_types import Gt
from torch import Tensor

from flr.core.registry import register
from flr.scenario.attacks.common import Attack, Share


@register("sign-flip", kind="attack", title="Sign flipping")
@dataclass(frozen=True)
class SignFlip(Attack):
    """Attackers train as asked and answer with their update turned round and `scale` times as long.

    Equation:
        w_k <- w - scale * (w_k - w)
    """

    clients: Share = 0.1
    scale: Annotated[float, Gt(0)] = 4.0

    def weights(
        self, sent: Tensor, received: Tensor, honest: Tensor, rng: torch.Generator
    ) -> Tensor:
        return received - self.scale * (sent - received)
