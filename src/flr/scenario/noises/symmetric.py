"""Any class for any other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flr.core.registry import register
from flr.data.dataset import NoiseMap
from flr.scenario.noises.common import Floats, TransitionNoise


@register("symmetric", kind="noise", title="Symmetric noise")
@dataclass(frozen=True)
class Symmetric(TransitionNoise):
    """A selected sample gets a label drawn uniformly from all classes, or from all but its own.

    With the true class included (the paper's way) a site of rate r has about r (C - 1) / C wrong
    labels.
    """

    include_true: bool = True

    def transition(self, classes: tuple[str, ...], noise_map: NoiseMap | None) -> Floats:
        n = len(classes)
        return np.full((n, n), 1 / n) if self.include_true else (1 - np.eye(n)) / (n - 1)
