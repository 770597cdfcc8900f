"""The residual networks of the paper: CIFAR's ResNet-18 and 34, and ImageNet's ResNet-50."""

from __future__ import annotations

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor, nn

from flr.core.registry import register
from flr.models.networks import Network, Width, image_channels


class BasicBlock(nn.Module):
    """Two 3x3 convolutions with BatchNorm and a shortcut, projected where the shape changes."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(after)
        self.shortcut = _projection(before, after, stride)

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        return F.relu(out + self.shortcut(x))


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions; the stride is on the 3x3 one, as in torchvision's v1.5."""

    def __init__(self, before: int, inside: int, stride: int) -> None:
        super().__init__()
        after = 4 * inside
        self.conv1 = nn.Conv2d(before, inside, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(inside)
        self.conv2 = nn.Conv2d(inside, inside, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(inside)
        self.conv3 = nn.Conv2d(inside, after, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(after)
        self.downsample = _projection(before, after, stride)

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.bn1(self.conv1(x)))
        out = F.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        return F.relu(out + self.downsample(x))


def _projection(before: int, after: int, stride: int) -> nn.Sequential:
    """A shortcut of another shape; empty, hence the identity, where the shape stays."""
    if stride == 1 and before == after:
        return nn.Sequential()
    return nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))


class ImageNetResNet(nn.Module):
    """A 7x7 stem with max-pooling and four stages of bottlenecks.

    Names and initial distribution of all weights are torchvision's, so that its files can be read.
    """

    def __init__(self, channels: int, classes: int, blocks: Sequence[int], width: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        before = width
        for stage, count in enumerate(blocks):
            inside = width * 2**stage
            parts = [Bottleneck(before, inside, 2 if stage else 1)]
            before = 4 * inside
            parts += [Bottleneck(before, inside, 1) for _ in range(count - 1)]
            self.add_module(f"layer{stage + 1}", nn.Sequential(*parts))
        self.fc = nn.Linear(before, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        out = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        for name, stage in self.named_children():
            if name.startswith("layer"):
                out = stage(out)
        logits: Tensor = self.fc(out.mean((2, 3)))
        return logits


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
    return _cifar_resnet(image_channels(input_shape, "resnet18"), classes, (2, 2, 2, 2), width)


@register("resnet34", kind="model", title="ResNet-34 (CIFAR)", paper="He et al., CVPR 2016")
def resnet34(input_shape: Sequence[int], classes: int, /, width: Width = 64) -> nn.Module:
    """ResNet-34 with the CIFAR stem and BatchNorm: the paper's network for CIFAR-100."""
    return _cifar_resnet(image_channels(input_shape, "resnet34"), classes, (3, 4, 6, 3), width)


@register("resnet50", kind="model", title="ResNet-50 (ImageNet)", paper="He et al., CVPR 2016")
def resnet50(input_shape: Sequence[int], classes: int, /, width: Width = 64) -> nn.Module:
    """ResNet-50 as in torchvision (v1.5), whose files `init` reads: the paper's for Clothing1M."""
    return ImageNetResNet(image_channels(input_shape, "resnet50"), classes, (3, 4, 6, 3), width)
