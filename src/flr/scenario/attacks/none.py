"""No attack."""

from __future__ import annotations

from dataclasses import dataclass

from flr.core.registry import register
from flr.scenario.attacks.common import Attack


@register("none", kind="attack", title="No attack")
@dataclass(frozen=True)
class NoAttack(Attack):
    """Every client is honest."""
