"""Networks of the package timm as backbones: their features before the classifier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import torch
from annotated_types import Ge
from torch import Tensor, nn

from flr.config import timm_models
from flr.config.errors import show
from flr.core.errors import ConfigError
from flr.core.registry import register
from flr.models import pretrained
from flr.models.backbones.common import (
    WEIGHTS,
    Images,
    digest_of_files,
    digest_of_state,
    prepared,
)

_KEY = "[data] backbone"


class TimmNetwork(nn.Module):
    """Images of 0 ... 255 -> the pooled features of a network of timm."""

    def __init__(
        self, body: nn.Module, side: int, mean: Sequence[float], std: Sequence[float]
    ) -> None:
        super().__init__()
        self.body = body
        self.side = side
        self.mean = [255 * value for value in mean]  # timm's are for pixels of 0 ... 1
        self.std = [255 * value for value in std]

    def forward(self, images: Images) -> Tensor:
        out: Tensor = self.body(prepared(images, self.side, self.mean, self.std))
        return out.flatten(1)


@register("timm", kind="backbone", title="timm", paper="Wightman, 2019 (software)", year=2019)
@dataclass(frozen=True)
class Timm:
    """Images to the pooled features of any network of the package timm: `"timm:NAME"`.

    `model` is a name from timm.list_models(). Images are scaled to `size` x `size` pixels; if left
    out, to what the network was trained at. Weights come from the file `weights`, or else from
    timm's own, which timm downloads into its cache. timm needs torchvision.
    """

    model: str
    weights: Path | None = None
    size: Annotated[int, Ge(1)] | None = None

    takes: ClassVar[str] = "images"

    def __post_init__(self) -> None:
        timm_models.check(self._name, {}, _KEY)

    @property
    def _name(self) -> str:
        return timm_models.PREFIX + self.model

    @property
    def side(self) -> int:
        return self.size or int(self._facts().input_size[-1])

    def fingerprint(self) -> str:
        if self.weights is not None:
            return digest_of_files([self.weights])
        return digest_of_state(self.load())

    def load(self) -> TimmNetwork:
        facts = self._facts()
        with torch.random.fork_rng(devices=[]):  # no initial weight stays; no generator moves
            body = self._body(facts)
        if self.weights is not None:
            saved = pretrained.read(self.weights, WEIGHTS)[0]
            heads = (facts.classifier,) if isinstance(facts.classifier, str) else facts.classifier
            prefixes = tuple(f"{head}." for head in heads or ())
            kept = {n: value for n, value in saved.items() if not n.startswith(prefixes)}
            pretrained.fill_all(body, kept, self.weights, f"backbone {self._name}")
        network = TimmNetwork(body, self.side, facts.mean, facts.std)
        return network.eval().requires_grad_(False)

    def _facts(self) -> Any:
        """What timm knows of the network's weights: sizes, mean and deviation of pixels."""
        try:
            found = timm_models.package(self._name, _KEY).get_pretrained_cfg(self.model)
        except RuntimeError as error:
            raise ConfigError(
                f"{_KEY} = {show(self._name)} should name weights that timm has; it says: "
                f"{timm_models.short(error)}. Take a name from timm.list_pretrained()."
            ) from error
        if found is None:
            raise ConfigError(
                f"{_KEY} = {show(self._name)} should be a network whose mean and deviation of "
                "pixels timm knows; it has none. Take a name from timm.list_pretrained()."
            )
        return found

    def _body(self, facts: Any) -> nn.Module:
        """The network without its classifier; one for a fixed size is told another one."""
        other = facts.fixed_input_size and self.side != facts.input_size[-1]
        options = {"img_size": self.side} if other else {}
        timm, own = timm_models.package(self._name, _KEY), self.weights is None
        try:
            body: nn.Module = timm.create_model(
                self.model, pretrained=own, num_classes=0, **options
            )
        except Exception as error:  # constructors and downloads fail in many ways
            raise ConfigError(
                f"{_KEY} = {show(self._name)} should be built with weights; timm cannot "
                f"({timm_models.short(error)}). Get the weights into timm's cache first, give a "
                "file as `weights`, or change `size`."
            ) from error
        return body
