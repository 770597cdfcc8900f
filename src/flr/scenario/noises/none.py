"""No noise."""

from __future__ import annotations

from dataclasses import dataclass

from flr.core.registry import register
from flr.scenario.noises.common import Noise


@register("none", kind="noise", title="No noise")
@dataclass(frozen=True)
class NoNoise(Noise):
    """Labels stay as they are, with whatever mistakes the data set has."""
