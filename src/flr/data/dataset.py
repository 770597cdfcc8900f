"""A data set in memory, and the table of who holds which of its samples."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from flr.contract import Site


@dataclass(frozen=True)
class LabeledData:
    """Labels, and inputs in the publisher's units: uint8 n x C x H x W, or float features."""

    x: Tensor
    y: Tensor  # n, int64

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, index: Tensor) -> LabeledData:
        return LabeledData(self.x[index], self.y[index])


@dataclass(frozen=True)
class Normalisation:
    """(x - mean) / std for each channel (images) or feature, in the publisher's units."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __call__(self, x: Tensor) -> Tensor:
        shape = (1, -1) + (1,) * (x.dim() - 2)
        mean = torch.tensor(self.mean, dtype=torch.float32).view(shape)
        std = torch.tensor(self.std, dtype=torch.float32).view(shape)
        return (x.to(torch.float32) - mean) / std


@dataclass(frozen=True)
class Dataset:
    """A training and a test set with one list of classes."""

    name: str
    train: LabeledData
    test: LabeledData
    classes: tuple[str, ...]
    normalise: Normalisation
    augment: str = "none"  # "none" or "crop-flip"
    noise_map: str | None = None  # name of the asymmetric map that belongs to it

    @property
    def input_shape(self) -> tuple[int, ...]:
        return tuple(self.train.x.shape[1:])

    @cached_property
    def fingerprint(self) -> str:
        """A hash of every input, label and class name."""
        digest = hashlib.sha256()
        for tensor in (self.train.x, self.train.y, self.test.x, self.test.y):
            digest.update(f"{tensor.dtype}{tuple(tensor.shape)}".encode())
            digest.update(tensor.contiguous().numpy().tobytes())
        digest.update("\x00".join(self.classes).encode())
        return digest.hexdigest()


@dataclass(frozen=True)
class SiteTable:
    """All sites of a simulated federation over one shared tensor; cheap for any number of sites.

    Holds inputs and given labels only: this is what worker processes see.
    """

    x: Tensor  # all training inputs, normalised
    index: Tensor  # sample numbers, site after site
    offset: Tensor  # site k holds index[offset[k] : offset[k + 1]]
    given: Tensor  # labels as given, aligned with `index`
    classes: int

    def __len__(self) -> int:
        return len(self.offset) - 1

    def __getitem__(self, site: int) -> Site:
        rows = slice(int(self.offset[site]), int(self.offset[site + 1]))
        return Site(f"site-{site}", self.x[self.index[rows]], self.given[rows], self.classes)

    def share(self) -> SiteTable:
        """Moves the tensors to shared memory, so that workers read them without a copy."""
        for tensor in (self.x, self.index, self.offset, self.given):
            tensor.share_memory_()
        return self


def site_table(
    x: Tensor, sites: Sequence[Tensor], given: Sequence[Tensor], classes: int
) -> SiteTable:
    """Builds the table from each site's sample numbers and given labels."""
    sizes = torch.tensor([0, *(len(s) for s in sites)])
    return SiteTable(x, torch.cat(list(sites)), sizes.cumsum(0), torch.cat(list(given)), classes)
