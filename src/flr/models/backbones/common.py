"""What a backbone is: a frozen, pretrained network that turns a sample into features."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

Images = Tensor  # uint8, n x channels x height x width, in the publisher's units
Encoder = Callable[..., Tensor]  # images or texts -> n x features, float32


class Backbone(Protocol):
    """A registered backbone, or what a user's `module:function` returns; its fields are options.

    Making one reads nothing: only `fingerprint` and `load` look at the weights, and they read
    them by safe readers only.
    """

    @property
    def takes(self) -> str:
        """ "images" or "texts"."""

    @property
    def side(self) -> int:
        """To how many pixels each side of an image is scaled; 0 for texts."""

    def fingerprint(self) -> str:
        """A hash of all files that decide on the features: weights, vocabulary."""

    def load(self) -> Encoder:
        """The network in eval mode as a function: of uint8 images, or of a list of texts.

        It may be moved to a device: if it is an `nn.Module`, it computes where its weights are.
        """


def digest_of_files(paths: Sequence[Path]) -> str:
    """A hash of the files' content, in this order."""
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def prepared(images: Images, side: int, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """Images as a network takes them: three channels, `side` pixels a side, (x - mean) / std.

    Mean and deviation are for pixels of 0 ... 255. Sizes are changed bilinearly, as at training.
    """
    x = images.to(torch.float32)
    if x.shape[1] == 1:
        x = x.expand(-1, 3, -1, -1)
    if x.shape[2:] != (side, side):
        smaller = side < min(x.shape[2:])
        x = F.interpolate(x, (side, side), mode="bilinear", antialias=smaller)
    shape = (1, -1, 1, 1)
    centre = torch.tensor(mean, dtype=torch.float32, device=x.device).view(shape)
    scale = torch.tensor(std, dtype=torch.float32, device=x.device).view(shape)
    return (x - centre) / scale
