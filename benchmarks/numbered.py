"""Features at random, as a backbone: so that a federation on features starts as a user's does.

Each image says the number of its sample in every pixel, so that all views of it have the same
features, and the bare loop, which knows no views, does the same work.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from flr.models import feature_cache

IMAGES = "images.npz"
_DIGITS = 3  # of base 256, one for each channel


def images(first: int, n: int) -> np.ndarray[Any, Any]:
    """Those of the samples first, first + 1, ...: n x 3 x 2 x 2, uint8."""
    numbers = np.arange(first, first + n)
    digits = np.stack([numbers >> (8 * place) & 255 for place in range(_DIGITS)], 1)
    return np.broadcast_to(digits.astype(np.uint8)[:, :, None, None], (n, _DIGITS, 2, 2)).copy()


@dataclass(frozen=True)
class Numbered:
    """A backbone that looks at the number of a sample only."""

    width: int

    takes: ClassVar[str] = "images"
    side: ClassVar[int] = 2

    def fingerprint(self) -> str:
        """There is no file."""
        return ""

    def load(self) -> Numbered:
        """Is its own network."""
        return self

    def __call__(self, shown: Tensor) -> Tensor:
        """Numbers from a normal distribution, by each sample's own seed."""
        scale = 256 ** torch.arange(_DIGITS)
        seeds = (shown[:, :, 0, 0].long() * scale).sum(1).tolist()
        draws = (torch.Generator().manual_seed(seed) for seed in seeds)
        return torch.stack([torch.randn(self.width, generator=rng) for rng in draws])


@contextmanager
def cache_in(folder: Path) -> Iterator[None]:
    """Features are kept in this folder and not in the user's."""
    before = os.environ.get(feature_cache.VARIABLE)
    os.environ[feature_cache.VARIABLE] = str(folder)
    try:
        yield
    finally:
        del os.environ[feature_cache.VARIABLE]
        if before is not None:
            os.environ[feature_cache.VARIABLE] = before
