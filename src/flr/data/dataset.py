"""A data set in memory, and the table of who holds which of its samples."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import overload

import torch
from torch import Tensor

from flr.contract import Site
from flr.data.lazy import Inputs, Pictures

NoiseMap = str | tuple[int, ...]  # a name that scenario/maps.py knows, or each class's new number


@dataclass(frozen=True)
class LabeledData:
    """Labels, and inputs in the publisher's units: uint8 n x C x H x W, or float features."""

    x: Inputs
    y: Tensor  # n, int64
    number: Tensor | None = None  # of each sample in the publisher's order, where there is one

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, index: Tensor) -> LabeledData:
        x = self.x.take(index) if isinstance(self.x, Pictures) else self.x[index]
        number = None if self.number is None else self.number[index]
        return LabeledData(x, self.y[index], number)


@dataclass(frozen=True)
class Normalisation:
    """(x - mean) / std for each channel (images) or feature, in the publisher's units."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    @overload
    def __call__(self, x: Tensor) -> Tensor: ...

    @overload
    def __call__(self, x: Pictures) -> Pictures: ...

    def __call__(self, x: Inputs) -> Inputs:
        """Of inputs on disk: when they are decoded."""
        if isinstance(x, Pictures):
            return replace(x, normalise=self)
        shape = (1, -1) + (1,) * (x.dim() - 2)
        mean = torch.tensor(self.mean, dtype=torch.float32).view(shape)
        std = torch.tensor(self.std, dtype=torch.float32).view(shape)
        return (x.to(torch.float32) - mean) / std


@dataclass(frozen=True)
class Subject:
    """What is classified: all that a server and its sites have to agree on about their data."""

    classes: tuple[str, ...]
    input_shape: tuple[int, ...]
    test_shape: tuple[int, ...]  # another one where images are cut at random in training
    normalise: Normalisation
    augment: str


@dataclass(frozen=True)
class Dataset:
    """A training and a test set with one list of classes."""

    name: str
    train: LabeledData
    test: LabeledData
    classes: tuple[str, ...]
    normalise: Normalisation
    augment: str = "none"  # or another of batches.KINDS
    noise_map: NoiseMap | None = None  # the asymmetric map that belongs to it
    verified: bool = True  # whether the training labels are known to be right

    @property
    def input_shape(self) -> tuple[int, ...]:
        return tuple(self.train.x.shape[1:])

    @property
    def test_shape(self) -> tuple[int, ...]:
        """Another one than in training where images are cut at random there."""
        return tuple(self.test.x.shape[1:])

    def subject(self, augment: str = "auto") -> Subject:
        """What it is about, without a sample of it."""
        kind = self.augment if augment == "auto" else augment
        return Subject(self.classes, self.input_shape, self.test_shape, self.normalise, kind)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of every input, label and class name; of inputs on disk, of paths, not pixels."""
        digest = hashlib.sha256()
        for tensor in (self.train.x, self.train.y, self.test.x, self.test.y):
            if isinstance(tensor, Pictures):
                digest.update(tensor.identity())
                continue
            digest.update(f"{tensor.dtype}{tuple(tensor.shape)}".encode())
            digest.update(tensor.contiguous().numpy().tobytes())
        digest.update("\x00".join(self.classes).encode())
        return digest.hexdigest()


class Parts(Sequence[Tensor]):
    """One tensor in consecutive parts, one for each site: cheap for any number of sites."""

    def __init__(self, flat: Tensor, sizes: Tensor) -> None:
        self.flat, self.sizes = flat, sizes
        self.offset = torch.cat([torch.zeros(1, dtype=torch.int64), sizes.cumsum(0)])

    @classmethod
    def of(cls, parts: Sequence[Tensor]) -> Parts:
        """Puts parts one after another."""
        if isinstance(parts, Parts):
            return parts
        sizes = torch.tensor([len(part) for part in parts], dtype=torch.int64)
        return cls(torch.cat(list(parts)), sizes)

    def __len__(self) -> int:
        return len(self.sizes)

    @overload
    def __getitem__(self, site: int) -> Tensor: ...

    @overload
    def __getitem__(self, site: slice) -> Parts: ...

    def __getitem__(self, site: int | slice) -> Tensor | Parts:
        if isinstance(site, slice):
            return Parts.of([self[k] for k in range(*site.indices(len(self)))])
        number = range(len(self))[site]  # refuses what is out of range, so that iteration ends
        return self.flat[int(self.offset[number]) : int(self.offset[number + 1])]


@dataclass(frozen=True)
class SiteTable:
    """All sites of a simulated federation over one shared tensor; cheap for any number of sites.

    Holds inputs and given labels only: this is what worker processes see. Inputs on disk are
    decoded when their site is looked up.
    """

    x: Inputs  # all training inputs, normalised
    index: Tensor  # sample numbers, site after site
    offset: Tensor  # site k holds index[offset[k] : offset[k + 1]]
    given: Tensor  # labels as given, aligned with `index`
    classes: int

    def __len__(self) -> int:
        return len(self.offset) - 1

    def __getitem__(self, site: int) -> Site:
        rows = slice(int(self.offset[site]), int(self.offset[site + 1]))
        return Site(f"site-{site}", self.x[self.index[rows]], self.given[rows], self.classes)

    def size(self, site: int) -> int:
        """How many samples a site holds, without looking at them."""
        return int(self.offset[site + 1] - self.offset[site])

    def share(self) -> SiteTable:
        """Moves the tensors to shared memory, so that workers read them without a copy."""
        self.x.share_memory_()
        for tensor in (self.index, self.offset, self.given):
            tensor.share_memory_()
        return self


def site_table(
    x: Inputs, sites: Sequence[Tensor], given: Sequence[Tensor], classes: int
) -> SiteTable:
    """Builds the table from each site's sample numbers and given labels."""
    held = Parts.of(sites)
    return SiteTable(x, held.flat, held.offset, Parts.of(given).flat, classes)
