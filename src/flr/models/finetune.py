"""A pretrained backbone inside the federation: a linear head on it, and how much of it is trained.

What is frozen is no part of a network's state: it is in no message, copy or model file, and each
process reads it once. So the fingerprint of its weights travels instead of them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from flr.config.entry import ConfigEntry, parse_entry
from flr.config.errors import ProblemsError
from flr.core.errors import ConfigError, DataError
from flr.core.registry import register
from flr.data.dataset import Normalization
from flr.models.backbones.common import Encoder, Images
from flr.models.networks import image_channels

if TYPE_CHECKING:
    from flr.config import Config, Train

Trainable = Literal["head", "last", "all"]

_LAST = 2  # stages that "last" trains: the last block and the convolution after it
_KEPT = 4  # encoders that a process keeps: of one or two backbones, as loaded and on a device


@register("backbone", kind="model", title="Backbone with a linear head")
def backbone(
    input_shape: Sequence[int],
    classes: int,
    normalize: Normalization | None = None,
    trainable: Trainable = "all",
    /,
    backbone: str | dict[str, Any] = "efficientnet-lite0",
    batchnorm: Literal["frozen", "averaged"] = "frozen",
    fingerprint: str = "",
) -> nn.Module:
    """A pretrained backbone and a linear head; `[train] trainable` says what of it is trained.

    `backbone` is a name or a table with options, as in `[data]`. `batchnorm` is about the trained
    part: "frozen" keeps the pretrained statistics, "averaged" goes on measuring them, and they are
    sent and averaged. `fingerprint` is the hash of the pretrained weights; a run fills it in, and
    no other weights are taken then.
    """
    image_channels(input_shape, "backbone")
    frozen = FrozenBackbone.of(backbone, fingerprint)
    stages = None if trainable == "head" else trained_stages(frozen, trainable, batchnorm)
    with torch.no_grad():
        width = frozen(torch.zeros(1, *input_shape, dtype=torch.uint8), stages).shape[1]
    return FineTuned(frozen, stages, int(width), classes, normalize)


@dataclass(frozen=True)
class FrozenBackbone:
    """What nobody trains, by its recipe: a copy, in this process or another, shares the weights."""

    entry: ConfigEntry
    fingerprint: str

    @classmethod
    def of(cls, raw: str | dict[str, Any], expected: str = "") -> FrozenBackbone:
        """By name or table; `expected` is the fingerprint that its weights must have, if any."""
        try:
            entry = parse_entry("backbone", raw, default="efficientnet-lite0")
        except ProblemsError as error:  # in a model file, or in Python: a config was checked
            raise ConfigError(f'[train] model = "backbone", its backbone: {error}') from None
        found = entry.build()
        if found.takes != "images":
            raise ConfigError(
                f'[train] model = "backbone" needs a backbone for images; "{entry.name}" takes '
                f"{found.takes}. Compute its features once instead, with [data] backbone."
            )
        frozen = cls(entry, found.fingerprint())
        if expected and frozen.fingerprint != expected:
            raise DataError(
                f'Expected the weights {expected[:12]} of backbone "{entry.name}", which the rest '
                f"of the model was trained with; those here are {frozen.fingerprint[:12]}. "
                "Install or give the same weights."
            )
        return frozen

    def __call__(self, images: Images, stages: nn.Sequential | None) -> Tensor:
        """The features; with `stages`, these stand in for as many last ones of the network."""
        whole = stages is not None and len(stages) == len(self.original().stages)
        encoder: Any = self.original() if whole else _encoder(self, str(images.device))
        if stages is None:
            there = images if isinstance(encoder, nn.Module) else images.cpu()
            with torch.no_grad():
                return torch.as_tensor(encoder(there), device=images.device)
        before = list(encoder.stages)[: -len(stages)]
        shell = copy.copy(encoder)  # shares all but the table of its parts
        shell._modules = {**encoder._modules, "stages": nn.Sequential(*before, *stages)}
        found: Tensor = shell(images)
        return found

    def original(self) -> Any:
        """The network as it can be trained further, in `stages`; nobody may change it."""
        return _original(self)


@lru_cache(maxsize=_KEPT)
def _encoder(frozen: FrozenBackbone, device: str) -> Encoder:
    if device != "cpu":
        there = _encoder(frozen, "cpu")
        return copy.deepcopy(there).to(device) if isinstance(there, nn.Module) else there
    with torch.random.fork_rng(devices=[]):  # the first network is not to differ from later ones
        loaded = frozen.entry.build().load()
    return loaded.eval().requires_grad_(False) if isinstance(loaded, nn.Module) else loaded


@lru_cache(maxsize=_KEPT)
def _original(frozen: FrozenBackbone) -> Any:
    made = frozen.entry.build()
    if not hasattr(made, "network"):
        raise ConfigError(
            f'Expected a backbone that can be trained; "{frozen.entry.name}" can only be frozen. '
            'Use [train] trainable = "head", or a backbone with stages such as efficientnet-lite0.'
        )
    with torch.random.fork_rng(devices=[]):
        return made.network().eval().requires_grad_(False)


def trained_stages(
    frozen: FrozenBackbone, trainable: Trainable, batchnorm: Literal["frozen", "averaged"]
) -> nn.Sequential:
    """A copy of the stages that are trained, under the names they have in the whole network."""
    stages: nn.Sequential = frozen.original().stages
    chosen = copy.deepcopy(cast(nn.Sequential, stages[-_LAST:]) if trainable == "last" else stages)
    if batchnorm == "frozen":
        _fix_statistics(chosen)
    chosen.requires_grad_(True)
    return chosen


class FineTuned(nn.Module):
    """Pixels, a backbone, a linear head; the state holds what is trained and nothing else."""

    def __init__(
        self,
        frozen: FrozenBackbone,
        stages: nn.Sequential | None,
        features: int,
        classes: int,
        normalize: Normalization | None,
    ) -> None:
        super().__init__()
        self.frozen, self.normalize = frozen, normalize
        self.stages = stages
        self.head = nn.Linear(features, classes)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.frozen(self.pixels(x), self.stages))
        return logits

    def pixels(self, x: Tensor) -> Images:
        """The bytes that the data set's normalisation was applied to: backbones have their own."""
        if self.normalize is not None:
            shape = (1, -1, 1, 1)
            std = torch.tensor(self.normalize.std, device=x.device).view(shape)
            x = x * std + torch.tensor(self.normalize.mean, device=x.device).view(shape)
        return x.round().clamp(0, 255).to(torch.uint8)


class FixedStatistics(nn.Module):
    """BatchNorm with the statistics it has: they are no part of the state, whatever the mode."""

    def __init__(self, norm: nn.modules.batchnorm._BatchNorm) -> None:
        super().__init__()
        self.weight, self.bias, self.eps = norm.weight, norm.bias, norm.eps
        self.register_buffer("running_mean", norm.running_mean, persistent=False)
        self.register_buffer("running_var", norm.running_var, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        mean, var = self.get_buffer("running_mean"), self.get_buffer("running_var")
        return F.batch_norm(x, mean, var, self.weight, self.bias, eps=self.eps)


def _fix_statistics(module: nn.Module) -> None:
    for name, child in module.named_children():
        if isinstance(child, nn.modules.batchnorm._BatchNorm):
            setattr(module, name, FixedStatistics(child))
        else:
            _fix_statistics(child)


@dataclass(frozen=True)
class Fitted:
    """A factory of networks that know how their inputs were normalised; worker processes get it."""

    make: Callable[..., nn.Module]
    normalize: Normalization
    trainable: Trainable

    def __call__(self, input_shape: tuple[int, ...], classes: int) -> nn.Module:
        return self.make(input_shape, classes, self.normalize, self.trainable)


def factory_of(
    model: ConfigEntry, normalize: Normalization, trainable: Trainable
) -> Callable[..., nn.Module]:
    """What makes a network of (input_shape, classes)."""
    make: Callable[..., nn.Module] = model.build()
    return Fitted(make, normalize, trainable) if model.is_backbone else make


def refuse_other_inputs(dtype: str) -> None:
    """A backbone takes pixels as they were published: of other numbers it would see nothing."""
    if dtype != "uint8":
        raise ConfigError(
            f'[train] model = "backbone" needs images of bytes, 0 to 255; the inputs are {dtype}. '
            'Give them as uint8, or use another model, such as "cnn".'
        )


def pinned(config: Config) -> Config:
    """The config with the fingerprint of the weights that are here, where a backbone is trained.

    With it, a site, a resumed run or a model file cannot go on with other frozen weights.
    """
    train: Train = config.train
    if not train.model.is_backbone:
        return config
    given = train.model.options
    frozen = FrozenBackbone.of(given["backbone"], given["fingerprint"])
    model = replace(train.model, options={**given, "fingerprint": frozen.fingerprint})
    return config.model_copy(update={"train": train.model_copy(update={"model": model})})
