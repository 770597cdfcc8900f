"""A small lie that hides among honest replies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from annotated_types import Gt
from torch import Tensor

from flr.core.registry import register
from flr.scenario.attacks.common import Attack, Share


@register(
    "alie",
    kind="attack",
    title="A little is enough",
    paper="Baruch et al., NeurIPS 2019",
    year=2019,
)
@dataclass(frozen=True)
class ALittleIsEnough(Attack):
    """Attackers agree on one answer, so near the honest ones that no rule can tell it from them.

    Equation:
        w_k <- mean - z * std     of the honest replies, coordinate by coordinate

    They know all honest replies of the round; where there is none, they answer honestly.
    """

    clients: Share = 0.1
    z: Annotated[float, Gt(0)] = 1.5

    def weights(
        self, sent: Tensor, received: Tensor, honest: Tensor, rng: torch.Generator
    ) -> Tensor:
        if not len(honest):
            return sent
        known = honest.to(torch.float64)
        return (known.mean(0) - self.z * known.std(0, correction=0)).to(sent.dtype)
