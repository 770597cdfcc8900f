"""Labels turned round on purpose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from flr.core.registry import register
from flr.data.train_test_split import Indices
from flr.scenario.attacks.common import Attack, Share


@register("label-flip", kind="attack", title="Label flipping")
@dataclass(frozen=True)
class LabelFlip(Attack):
    """Attackers train on labels turned round, C - 1 - c for c; on top of whatever noise there is.

    The scenario holds the turned labels: its hash covers them, and they count as wrong.
    """

    relabels: ClassVar[bool] = True
    clients: Share = 0.1

    def labels(self, given: Indices, classes: int) -> Indices:
        return classes - 1 - given
