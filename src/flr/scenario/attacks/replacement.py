"""A model of the attackers' own in place of the average."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from annotated_types import Gt
from torch import Tensor

from flr.core.registry import register
from flr.scenario.attacks.common import Share
from flr.scenario.attacks.label_flip import LabelFlip


@register(
    "replacement",
    kind="attack",
    title="Model replacement",
    paper="Bagdasaryan et al., AISTATS 2020",
    year=2020,
)
@dataclass(frozen=True)
class Replacement(LabelFlip):
    """Attackers train on labels turned round, and lengthen their update until it outweighs all.

    Equation:
        w_k <- w + scale * (w_k - w)

    With `scale` as large as there are replies in a round, the mean is the attacker's model.
    """

    relabels: ClassVar[bool] = True
    clients: Share = 0.1
    scale: Annotated[float, Gt(0)] = 10.0

    def weights(
        self, sent: Tensor, received: Tensor, honest: Tensor, rng: torch.Generator
    ) -> Tensor:
        return received + self.scale * (sent - received)
