"""A frozen network as a user brings one ("tiny_backbone:projection"), and networks that watch."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from flr.config.entry import ConfigEntry, parse_entry

NAME = "tiny_backbone:projection"

calls: list[int] = []  # how many samples each forward pass of a projection has had
watched: list[tuple[bool, Tensor]] = []  # what a `watching_net` has seen, and whether it trained


class OutOfOrderError(Exception):
    """What `breaks_after` makes of a forward pass."""


@dataclass(frozen=True)
class Projection:
    """Images to so many features, by weights that are drawn from `salt`."""

    width: int
    side: int
    salt: int
    breaks_after: int | None

    takes: ClassVar[str] = "images"

    def fingerprint(self) -> str:
        return hashlib.sha256(f"projection {self.salt}".encode()).hexdigest()

    def load(self) -> Callable[[Tensor], Tensor]:
        rng = torch.Generator().manual_seed(self.salt)
        weight = torch.randn(3 * self.side**2, self.width, generator=rng) / self.side

        def encode(images: Tensor) -> Tensor:
            if self.breaks_after is not None and len(calls) >= self.breaks_after:
                raise OutOfOrderError
            calls.append(len(images))
            pixels = images.expand(-1, 3, -1, -1).float() / 255
            small = F.adaptive_avg_pool2d(pixels, self.side)
            return (small.flatten(1) @ weight).tanh()

        return encode


broken: list[int] = []  # after how many passes a projection raises; a config need not know


def projection(width: int = 8, side: int = 6, salt: int = 0) -> Projection:
    """The function that a config names."""
    return Projection(width, side, salt, broken[0] if broken else None)


@dataclass(frozen=True)
class Bad(Projection):
    """Features that are not n x features, or no numbers."""

    kind: str = "flat"

    def load(self) -> Callable[[Tensor], Tensor]:
        made = {
            "flat": lambda images: torch.zeros(len(images)),
            "few": lambda images: torch.zeros(len(images) - 1, 4),
            "nan": lambda images: torch.full((len(images), 4), torch.nan),
            "large": lambda images: torch.full((len(images), 4), 1e6),
        }
        return made[self.kind]


def bad(kind: str) -> Projection:
    """A backbone whose features cannot be used."""
    return Bad(4, 6, 0, None, kind)


def no_backbone() -> int:
    """What is no backbone at all."""
    return 3


def entry(name: str = NAME, **options: object) -> ConfigEntry:
    """As a config would have it."""
    return parse_entry("backbone", {"name": name, **options}, default="")


def images(n: int, seed: int = 0, side: int = 8, channels: int = 3) -> Tensor:
    """Random ones, each different."""
    rng = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (n, channels, side, side), generator=rng, dtype=torch.uint8)


def image_folder(root: Path, n: int, classes: tuple[str, ...], seed: int = 0) -> Path:
    """Images of several sizes and shades, the classes in turn: 000.png is of the first one."""
    from PIL import Image

    for i, pixels in enumerate(images(n, seed, side=12)):
        kind = i % len(classes)
        shown = (pixels.float() * 0.3 + 170 * kind / len(classes)).to(torch.uint8)
        place = root / classes[kind] / f"{i:03}.png"
        place.parent.mkdir(parents=True, exist_ok=True)
        cut = shown[:, : 12 - i % 2].permute(1, 2, 0).contiguous().numpy()
        Image.fromarray(cut).save(place)
    return root


class Watching(nn.Module):
    """A linear classifier that notes what it is shown."""

    def __init__(self, inputs: int, classes: int) -> None:
        super().__init__()
        self.last = nn.Linear(inputs, classes)

    def forward(self, x: Tensor) -> Tensor:
        watched.append((self.training, x.detach().clone()))
        out: Tensor = self.last(x)
        return out


def watching_net(input_shape: tuple[int, ...], classes: int) -> nn.Module:
    """The function that a config names."""
    return Watching(input_shape[0], classes)
