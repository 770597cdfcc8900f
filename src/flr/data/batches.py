"""Batches of a site that lies in memory, augmented as a whole on the device where they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from flr.contract import Batch, Client, Site
from flr.data.dataset import Dataset
from flr.errors import ConfigError
from flr.registry import unknown

KINDS = ("none", "crop-flip")
_PAD = 4


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
    """Shifts each image by up to 4 pixels and mirrors half of them ("crop-flip"), or does nothing.

    `fill` is what stands outside the image, for each channel. Draws are made on the CPU, so that
    all devices share them; "none" draws nothing.
    """
    if kind == "none":
        return x
    if kind not in KINDS:
        raise ConfigError(unknown("augmentation", kind, list(KINDS)))
    if x.dim() != 4:
        shape = " x ".join(str(n) for n in x.shape[1:])
        raise ConfigError(
            f'Expected images (channels x height x width) for augmentation "{kind}"; got inputs of '
            f'shape {shape}. Use augmentation "none".'
        )
    n, channels, height, width = x.shape
    shift = torch.randint(0, 2 * _PAD + 1, (2, n, 1), generator=rng).to(x.device)
    flip = torch.randint(0, 2, (n, 1), generator=rng).to(x.device)

    outside = torch.tensor(fill, dtype=x.dtype, device=x.device).view(1, -1, 1, 1)
    padded = outside.repeat(n, 1, height + 2 * _PAD, width + 2 * _PAD)
    padded[:, :, _PAD : _PAD + height, _PAD : _PAD + width] = x

    rows = shift[0] + torch.arange(height, device=x.device)  # n x height
    columns = torch.arange(width, device=x.device)
    columns = shift[1] + torch.where(flip == 1, columns.flip(0), columns)  # n x width
    source = rows[:, :, None] * padded.shape[3] + columns[:, None, :]  # n x height x width
    source = source.view(n, 1, -1).expand(-1, channels, -1)
    return padded.flatten(2).gather(2, source).view_as(x)


@dataclass(frozen=True)
class Batches:
    """Makes a client's batches: what the engine puts into `Client.make_batches`."""

    kind: str  # of augmentation
    fill: tuple[float, ...]  # a raw 0 of each channel, normalised

    @classmethod
    def of(cls, dataset: Dataset) -> Batches:
        """As the data set wants to be augmented; outside of an image everything is a raw 0."""
        norm = dataset.normalise
        fill = tuple(-mean / std for mean, std in zip(norm.mean, norm.std, strict=True))
        return cls(dataset.augment, fill)

    def __call__(self, c: Client) -> Iterator[Batch]:
        """One epoch of this client."""
        site = c.data
        for index in batches(site, c.train.batch, c.order):
            x = augment(site.x[index], self.kind, c.augmentation, self.fill)
            yield Batch(x, site.y[index], index)
