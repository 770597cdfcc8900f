"""Networks by name: small ones for the CPU, and the CIFAR ResNets of the paper."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Annotated

import torch
import torch.nn.functional as F
from annotated_types import Ge
from torch import Tensor, nn

from flr import seeds
from flr.errors import ConfigError
from flr.registry import register

Width = Annotated[int, Ge(1)]


class Network(nn.Module):
    """Features, then a linear head."""

    def __init__(self, body: nn.Module, features: int, classes: int) -> None:
        super().__init__()
        self.body = body
        self.head = nn.Linear(features, classes)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.body(x))
        return logits


@register("mlp", kind="model", title="Perceptron")
def mlp(
    input_shape: Sequence[int], classes: int, /, hidden: Width = 128, layers: Width = 1
) -> nn.Module:
    """Fully connected network with ReLU; for digits, features and CSV files."""
    sizes = [math.prod(input_shape)] + [hidden] * layers
    parts: list[nn.Module] = [nn.Flatten()]
    for i in range(layers):
        parts += [nn.Linear(sizes[i], sizes[i + 1]), nn.ReLU()]
    return Network(nn.Sequential(*parts), hidden, classes)


@register("cnn", kind="model", title="Small strided CNN")
def cnn(input_shape: Sequence[int], classes: int, /, width: Width = 32) -> nn.Module:
    """Three strided 3x3 convolutions with GroupNorm, averaged over space; fast on a CPU."""
    channels = _image_channels(input_shape, "cnn")
    sizes = [channels, width, 2 * width, 4 * width]
    parts: list[nn.Module] = []
    for before, after in pairwise(sizes):
        convolution = nn.Conv2d(before, after, 3, stride=2, padding=1, bias=False)
        parts += [convolution, nn.GroupNorm(math.gcd(8, after), after), nn.ReLU()]
    parts += [nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return Network(nn.Sequential(*parts), sizes[-1], classes)


class BasicBlock(nn.Module):
    """Two 3x3 convolutions with BatchNorm and a shortcut, projected where the shape changes."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(after)
        self.shortcut = nn.Sequential()
        if stride != 1 or before != after:
            projection = nn.Conv2d(before, after, 1, stride, bias=False)
            self.shortcut = nn.Sequential(projection, nn.BatchNorm2d(after))

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        return F.relu(out + self.shortcut(x))


def _cifar_resnet(channels: int, classes: int, blocks: Sequence[int], width: int) -> nn.Module:
    """3x3 stem without pooling, four stages at strides 1, 2, 2, 2, global average."""
    stem = nn.Conv2d(channels, width, 3, 1, 1, bias=False)
    parts: list[nn.Module] = [stem, nn.BatchNorm2d(width), nn.ReLU()]
    before = width
    for stage, count in enumerate(blocks):
        after = width * 2**stage
        for i in range(count):
            parts.append(BasicBlock(before, after, 2 if stage and not i else 1))
            before = after
    parts += [nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return Network(nn.Sequential(*parts), before, classes)


@register("resnet18", kind="model", title="ResNet-18 (CIFAR)", paper="He et al., CVPR 2016")
def resnet18(input_shape: Sequence[int], classes: int, /, width: Width = 64) -> nn.Module:
    """ResNet-18 with the CIFAR stem and BatchNorm: the paper's network for CIFAR-10."""
    return _cifar_resnet(_image_channels(input_shape, "resnet18"), classes, (2, 2, 2, 2), width)


@register("resnet34", kind="model", title="ResNet-34 (CIFAR)", paper="He et al., CVPR 2016")
def resnet34(input_shape: Sequence[int], classes: int, /, width: Width = 64) -> nn.Module:
    """ResNet-34 with the CIFAR stem and BatchNorm: the paper's network for CIFAR-100."""
    return _cifar_resnet(_image_channels(input_shape, "resnet34"), classes, (3, 4, 6, 3), width)


def features(network: nn.Module) -> int:
    """The width of what the last linear layer takes."""
    linear = [module for module in network.modules() if isinstance(module, nn.Linear)]
    return linear[-1].in_features if linear else 0


def embed(network: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    """Logits, and the features that the last linear layer took."""
    head = [module for module in network.modules() if isinstance(module, nn.Linear)][-1]
    taken: list[Tensor] = []
    hook = head.register_forward_pre_hook(lambda _, inputs: taken.append(inputs[0]))
    try:
        logits: Tensor = network(x)
    finally:
        hook.remove()
    return logits, taken[-1]


def _image_channels(input_shape: Sequence[int], model: str) -> int:
    if len(input_shape) != 3:
        raise ConfigError(
            f'[train] model = "{model}" needs images (channels x height x width); '
            f"the data set has inputs of shape "
            f'{tuple(input_shape)}. Use model = "mlp".'
        )
    return int(input_shape[0])


def build(
    factory: Callable[[tuple[int, ...], int], nn.Module],
    input_shape: Sequence[int],
    classes: int,
    networks: int,
    seed: int,
) -> nn.ModuleList:
    """Networks of one kind with initial weights of their own; torch's global generator stays."""
    with torch.random.fork_rng(devices=[]):
        made = []
        for network in range(networks):
            torch.default_generator.manual_seed(seeds.derive(seed, "init", network))
            made.append(factory(tuple(input_shape), classes))
    return nn.ModuleList(made)
