"""Each class for the next one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flr.core.registry import register
from flr.data.dataset import NoiseMap
from flr.scenario.noises.common import Floats, TransitionNoise


@register("pair", kind="noise", title="Pair noise", paper="Han et al., NeurIPS 2018", year=2018)
@dataclass(frozen=True)
class PairFlip(TransitionNoise):
    """A selected sample of class y gets the next one, y + 1 modulo C: every class is mistaken."""

    def transition(self, classes: tuple[str, ...], noise_map: NoiseMap | None) -> Floats:
        return np.roll(np.eye(len(classes)), 1, axis=1)
