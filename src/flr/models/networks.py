"""Networks by name: small ones for the CPU here, the paper's in resnets.py; what all share."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Annotated, Literal

import torch
from annotated_types import Ge, Lt
from torch import Tensor, nn

from flr.core import seeds
from flr.core.arrays import Arrays
from flr.core.contract import MODEL
from flr.core.errors import ConfigError
from flr.core.registry import register

Width = Annotated[int, Ge(1)]
Share = Annotated[float, Ge(0), Lt(1)]

_NORMS: dict[str, Callable[[int], nn.Module]] = {"layer": nn.LayerNorm, "batch": nn.BatchNorm1d}


class Network(nn.Module):
    """Features, then a linear head."""

    def __init__(self, body: nn.Module, features: int, classes: int) -> None:
        super().__init__()
        self.body = body
        self.head = nn.Linear(features, classes)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.body(x))
        return logits


@register("linear", kind="model", title="Linear classifier")
def linear(input_shape: Sequence[int], classes: int, /) -> nn.Module:
    """One linear layer on the flat inputs: a logistic regression; for features of a backbone."""
    return Network(nn.Flatten(), math.prod(input_shape), classes)


@register("mlp", kind="model", title="Perceptron")
def mlp(
    input_shape: Sequence[int],
    classes: int,
    /,
    hidden: Width = 128,
    layers: Width = 1,
    dropout: Share = 0.0,
    norm: Literal["none", "layer", "batch"] = "none",
) -> nn.Module:
    """Fully connected network with ReLU; for digits, features and CSV files.

    `norm` stands before each ReLU, `dropout` after it. What is not asked for is not there.
    """
    sizes = [math.prod(input_shape)] + [hidden] * layers
    parts: list[nn.Module] = [nn.Flatten()]
    for before, after in pairwise(sizes):
        parts.append(nn.Linear(before, after))
        if norm != "none":
            parts.append(_NORMS[norm](after))
        parts.append(nn.ReLU())
        if dropout > 0:
            parts.append(nn.Dropout(dropout))
    return Network(nn.Sequential(*parts), hidden, classes)


@register("cnn", kind="model", title="Small strided CNN")
def cnn(
    input_shape: Sequence[int], classes: int, /, width: Width = 32, flat: bool = False
) -> nn.Module:
    """Three strided 3x3 convolutions with GroupNorm, averaged over space; fast on a CPU.

    With `flat`, what they give is laid out flat instead of averaged: the head then has many
    weights, and room for wrong labels. That fixes the size of the images.
    """
    channels = image_channels(input_shape, "cnn")
    sizes = [channels, width, 2 * width, 4 * width]
    parts: list[nn.Module] = []
    for before, after in pairwise(sizes):
        convolution = nn.Conv2d(before, after, 3, stride=2, padding=1, bias=False)
        parts += [convolution, nn.GroupNorm(math.gcd(8, after), after), nn.ReLU()]
    if not flat:
        parts.append(nn.AdaptiveAvgPool2d(1))
    places = math.prod(-(-side // 8) for side in input_shape[1:]) if flat else 1
    return Network(nn.Sequential(*parts, nn.Flatten()), sizes[-1] * places, classes)


def head_of(network: nn.Module) -> tuple[str, nn.Linear] | None:
    """The last linear layer and its name; None where there is none.

    Args:
        network: Any network.

    Example:
        >>> from torch import nn
        >>> from flr.plugin import head_of
        >>> head_of(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)))
        ('2', Linear(in_features=8, out_features=3, bias=True))
    """
    linear = [(name, m) for name, m in network.named_modules() if isinstance(m, nn.Linear)]
    return linear[-1] if linear else None


def features(network: nn.Module) -> int:
    """The width of what the last linear layer takes."""
    head = head_of(network)
    return head[1].in_features if head else 0


def embed(network: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    """Logits, and the features that the last linear layer took.

    Args:
        network: A network with a linear layer.
        x: A batch.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> from flr.plugin import embed
        >>> network = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
        >>> [tuple(found.shape) for found in embed(network, torch.rand(5, 4))]
        [(5, 3), (5, 8)]
    """
    head = head_of(network)
    if head is None:
        raise ConfigError(
            "Expected a model whose last layer is linear, as the method works on what that layer "
            "takes; this one has no linear layer. Use another model or method."
        )
    taken: list[Tensor] = []
    hook = head[1].register_forward_pre_hook(lambda _, inputs: taken.append(inputs[0]))
    try:
        logits: Tensor = network(x)
    finally:
        hook.remove()
    return logits, taken[-1].to(logits.dtype)  # where the network computes in less, too


def image_channels(input_shape: Sequence[int], model: str) -> int:
    """The channels of images; a network for images refuses anything else."""
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


def weights_of(model: nn.ModuleList) -> Arrays:
    """A copy of all parameters and buffers, named as they cross the wire."""
    return {MODEL + key: value.detach().cpu().clone() for key, value in model.state_dict().items()}


def load_weights(model: nn.ModuleList, arrays: Arrays) -> None:
    """The inverse of `weights_of`; ignores what does not belong to the networks."""
    model.load_state_dict({k[len(MODEL) :]: v for k, v in arrays.items() if k.startswith(MODEL)})
