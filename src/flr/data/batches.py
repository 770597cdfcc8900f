"""Batches of a site that lies in memory, augmented as a whole on the device where they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from flr.core.contract import Batch, Client, Site
from flr.core.errors import ConfigError
from flr.core.registry import unknown
from flr.data.checks import times
from flr.data.dataset import TaskSpec

KINDS = ("none", "crop-flip", "window-flip")
_PAD = 4
_WINDOW = 7 / 8  # of each side: 224 of 256 pixels


def batches(site: Site, size: int, order: torch.Generator) -> Iterator[Tensor]:
    """Sample numbers of one epoch in random order, batch after batch.

    A last batch of one joins the one before it: BatchNorm has no variance of a single sample.
    """
    n = len(site)
    shuffled = torch.randperm(n, generator=order).to(site.y.device)
    ends = list(range(size, n, size)) + [n] * (n > 0)
    if size > 1 and len(ends) > 1 and ends[-1] - ends[-2] == 1:
        del ends[-2]
    start = 0
    for end in ends:
        yield shuffled[start:end]
        start = end


def augment(x: Tensor, kind: str, rng: torch.Generator, fill: tuple[float, ...]) -> Tensor:
    """Shows a random part of each image, and mirrors half of them; "none" does nothing.

    "crop-flip" shifts by up to 4 pixels, and `fill` is what stands outside the image, for each
    channel; "window-flip" cuts out 7/8 of each side, so that images become smaller. Draws are made
    on the CPU, so that all devices share them; "none" draws nothing.
    """
    if kind == "none":
        return x
    if kind not in KINDS:
        raise ConfigError(unknown("augmentation", kind, list(KINDS)))
    if x.dim() != 4:
        raise ConfigError(
            f'Expected images (channels x height x width) for augmentation "{kind}"; got inputs of '
            f'shape {times(x.shape[1:])}. Use augmentation "none".'
        )
    n, channels, height, width = shown = (len(x), *shape_after(kind, x.shape[1:]))
    if kind == "crop-flip":
        x = _padded(x, fill)
    steps = [x.shape[2] - height + 1, x.shape[3] - width + 1]
    top, left = (torch.randint(0, step, (n, 1), generator=rng).to(x.device) for step in steps)
    flip = torch.randint(0, 2, (n, 1), generator=rng).to(x.device)

    rows = top + torch.arange(height, device=x.device)  # n x height
    columns = torch.arange(width, device=x.device)
    columns = left + torch.where(flip == 1, columns.flip(0), columns)  # n x width
    source = rows[:, :, None] * x.shape[3] + columns[:, None, :]  # n x height x width
    source = source.view(n, 1, -1).expand(-1, channels, -1)
    return x.flatten(2).gather(2, source).view(shown)


def shape_after(kind: str, shape: Sequence[int]) -> tuple[int, ...]:
    """The shape of an input (channels x height x width) once it is augmented."""
    if kind != "window-flip":
        return tuple(shape)
    channels, *sides = shape
    return (channels, *(max(int(side * _WINDOW), 1) for side in sides))


def _padded(x: Tensor, fill: tuple[float, ...]) -> Tensor:
    n, _, height, width = x.shape
    outside = torch.tensor(fill, dtype=x.dtype, device=x.device).view(1, -1, 1, 1)
    padded = outside.repeat(n, 1, height + 2 * _PAD, width + 2 * _PAD)
    padded[:, :, _PAD : _PAD + height, _PAD : _PAD + width] = x
    return padded


def _looked_at(site: Site, index: Tensor, c: Client) -> Tensor:
    """The samples, each in one of its views where there are several; draws are made on the CPU."""
    if site.views is None:
        return site.x[index]
    drawn = torch.randint(0, site.views.shape[1], (len(index),), generator=c.augmentation)
    return site.views[index, drawn.to(site.x.device)]


@dataclass(frozen=True)
class Batches:
    """Makes a client's batches: what the engine puts into `Client.make_batches`."""

    kind: str  # of augmentation
    fill: tuple[float, ...]  # a raw 0 of each channel, normalised

    @classmethod
    def of(cls, spec: TaskSpec) -> Batches:
        """As the data are to be augmented; outside of an image everything is a raw 0."""
        norm = spec.normalize
        fill = tuple(-mean / std for mean, std in zip(norm.mean, norm.std, strict=True))
        return cls(spec.augment, fill)

    def __call__(self, c: Client) -> Iterator[Batch]:
        """One epoch of this client."""
        site = c.data
        for index in batches(site, c.train.batch, c.order):
            x = augment(_looked_at(site, index, c), self.kind, c.augmentation, self.fill)
            yield Batch(x, site.y[index], index)
