"""Edges and colours of an image, computed without a network: needs no weights."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from flr.core.registry import register
from flr.models.backbones.common import Encoder, Images, prepared

_SIDE, _CELL, _BINS, _PATCH = 64, 8, 9, 16  # pixels, pixels, directions, pixels
_EPS = 1e-3
_BLACK, _WHITE = (0.0,) * 3, (255.0,) * 3


@torch.no_grad()
def edges_and_colors(images: Images) -> Tensor:
    """Histograms of directions in 8 x 8 cells, then mean and deviation of colours in 4 x 4."""
    x = prepared(images, _SIDE, _BLACK, _WHITE)
    return torch.cat([_edges(x), _colors(x)], 1)


def _edges(x: Tensor) -> Tensor:
    """n x 576: how strong edges of each direction are in a cell, for its surroundings."""
    padded = F.pad(x, (1, 1, 1, 1), mode="replicate")
    across = padded[:, :, 1:-1, 2:] - padded[:, :, 1:-1, :-2]
    down = padded[:, :, 2:, 1:-1] - padded[:, :, :-2, 1:-1]
    strength, channel = (across.square() + down.square()).max(1, keepdim=True)
    angle = torch.atan2(down.gather(1, channel), across.gather(1, channel)) % math.pi
    place = angle / math.pi * _BINS
    centers = torch.arange(_BINS, device=x.device).view(1, -1, 1, 1)
    away = (place - centers).abs()
    share = (1 - torch.minimum(away, _BINS - away)).clamp(min=0)  # of the two nearest directions
    cells = F.avg_pool2d(share * strength.sqrt(), _CELL)
    energy = F.avg_pool2d(cells.square().sum(1, keepdim=True), 3, 1, 1, count_include_pad=False)
    return (cells / (energy.sqrt() + _EPS)).sqrt().flatten(1)


def _colors(x: Tensor) -> Tensor:
    """n x 96."""
    mean = F.avg_pool2d(x, _PATCH)
    spread = (F.avg_pool2d(x.square(), _PATCH) - mean.square()).clamp(min=0).sqrt()
    return torch.cat([mean.flatten(1), spread.flatten(1)], 1)


@register(
    "hog",
    kind="backbone",
    title="HOG and colours",
    paper="Dalal and Triggs, CVPR 2005",
    year=2005,
)
@dataclass(frozen=True)
class Hog:
    """Images to 672 features without a network: directions of edges, and colours; needs no weights.

    Images are scaled to 64 x 64 pixels. For the label audit where no pretrained network is
    installed. It tells shapes and colours apart, not things.
    """

    takes: ClassVar[str] = "images"
    side: ClassVar[int] = _SIDE

    def fingerprint(self) -> str:
        return hashlib.sha256(b"edges and colors, 1").hexdigest()

    def load(self) -> Encoder:
        return edges_and_colors
