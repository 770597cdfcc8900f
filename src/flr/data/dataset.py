"""A data set in memory, and the table of who holds which of its samples."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import overload

import torch
from torch import Tensor

from flr.core.contract import Site
from flr.data.features import Features
from flr.data.on_disk import Inputs, Numbers, Pictures, as_numbers

# A name that scenario/noises/asymmetric.py knows, or each class's new number.
NoiseMap = str | tuple[int, ...]


@dataclass(frozen=True)
class LabeledData:
    """Labels, and inputs in the publisher's units: uint8 n x C x H x W, float features, or texts.

    `dataclasses.replace` changes one of these and keeps the others.
    """

    x: Inputs
    y: Tensor  # n, int64
    number: Tensor | None = None  # of each sample in the publisher's order, where there is one
    site: Tensor | None = None  # n, int64: position in the data set's `site_names`, if it has some

    @property
    def inputs(self) -> Numbers:
        """`x` for those who compute with it; texts are refused."""
        return as_numbers(self.x)

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, index: Tensor) -> LabeledData:
        x = self.x[index] if isinstance(self.x, Tensor) else self.x.take(index)
        number = None if self.number is None else self.number[index]
        site = None if self.site is None else self.site[index]
        return LabeledData(x, self.y[index], number, site)


@dataclass(frozen=True)
class Normalization:
    """(x - mean) / std for each channel (images) or feature, in the publisher's units.

    Without mean and std inputs are numbers of tokens, which stay whole numbers.
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]

    @classmethod
    def of_pixels(cls, mean: tuple[float, ...], std: tuple[float, ...]) -> Normalization:
        """From constants for pixels of 0 ... 1, as they are published, to those for 0 ... 255."""
        return cls(tuple(255 * m for m in mean), tuple(255 * s for s in std))

    @property
    def keeps_tokens(self) -> bool:
        """Whether tensors hold numbers of tokens."""
        return not self.mean

    @overload
    def __call__(self, x: Tensor) -> Tensor: ...

    @overload
    def __call__(self, x: Pictures) -> Pictures: ...

    @overload
    def __call__(self, x: Features) -> Features: ...

    @overload
    def __call__(self, x: Inputs) -> Numbers: ...

    def __call__(self, x: Inputs) -> Numbers:
        """Of inputs that are no tensor yet: when they become one. Texts are refused."""
        x = as_numbers(x)
        if not isinstance(x, Tensor):
            return replace(x, normalize=self)
        if self.keeps_tokens:
            return x.to(torch.int64)
        shape = (1, -1) + (1,) * (x.dim() - 2)
        mean = torch.tensor(self.mean, dtype=torch.float32).view(shape)
        std = torch.tensor(self.std, dtype=torch.float32).view(shape)
        return (x.to(torch.float32) - mean) / std


@dataclass(frozen=True)
class TaskSpec:
    """What is classified: all that a server and its sites have to agree on about their data."""

    classes: tuple[str, ...]
    input_shape: tuple[int, ...]
    test_shape: tuple[int, ...]  # another one where images are cut at random in training
    normalize: Normalization
    augment: str


@dataclass(frozen=True)
class Dataset:
    """A training and a test set with one list of classes; `flr.run(config, data=...)` takes one.

    Args:
        name: What reports call it.
        train: Inputs in the publisher's units, and labels as positions in `classes`.
        test: The same for the test set.
        classes: Their names.
        normalize: Turns the publisher's units into what a network sees.
        augment: "none" or another of `batches.KINDS`.
        noise_map: The asymmetric map that belongs to it.
        verified: Whether the training labels are known to be right.
        origin: The fingerprint of the raw data, where the inputs are features of them.
        site_names: Of the sites that the data themselves name, see `LabeledData.site`.
        raters: The class that each of several people chose, for every sample by its `number`.

    Example:
        >>> import numpy as np
        >>> from flr.data.build import from_arrays
        >>> dataset = from_arrays(np.random.rand(40, 3), np.arange(40) % 2, classes=("no", "yes"))
        >>> dataset.classes, dataset.input_shape
        (('no', 'yes'), (3,))
    """

    name: str
    train: LabeledData
    test: LabeledData
    classes: tuple[str, ...]
    normalize: Normalization
    augment: str = "none"
    noise_map: NoiseMap | None = None
    verified: bool = True
    origin: str = ""
    site_names: tuple[str, ...] = ()
    raters: Ragged | None = None

    @property
    def input_shape(self) -> tuple[int, ...]:
        return tuple(self.train.x.shape[1:])

    @property
    def test_shape(self) -> tuple[int, ...]:
        """Another one than in training where images are cut at random there."""
        return tuple(self.test.x.shape[1:])

    def task_spec(self, augment: str = "auto") -> TaskSpec:
        """What is classified, without a sample of it."""
        kind = self.augment if augment == "auto" else augment
        return TaskSpec(self.classes, self.input_shape, self.test_shape, self.normalize, kind)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of every input, label and class name; of inputs on disk, of paths, not pixels.

        Of features it is that of what they were made from: another backbone changes no scenario.
        Who holds a sample is not in it: that is the scenario's.
        """
        if self.origin:
            return self.origin
        digest = hashlib.sha256()
        for tensor in (self.train.x, self.train.y, self.test.x, self.test.y):
            if not isinstance(tensor, Tensor):
                digest.update(tensor.identity())
                continue
            digest.update(f"{tensor.dtype}{tuple(tensor.shape)}".encode())
            digest.update(tensor.contiguous().numpy().tobytes())
        digest.update("\x00".join(self.classes).encode())
        return digest.hexdigest()


class Ragged(Sequence[Tensor]):
    """Tensors of different lengths, one for each site, laid out one after another in one tensor."""

    def __init__(self, flat: Tensor, sizes: Tensor) -> None:
        self.flat, self.sizes = flat, sizes
        self.offset = torch.cat([torch.zeros(1, dtype=torch.int64), sizes.cumsum(0)])

    @classmethod
    def of(cls, tensors: Sequence[Tensor]) -> Ragged:
        """Lays tensors out one after another."""
        if isinstance(tensors, Ragged):
            return tensors
        sizes = torch.tensor([len(tensor) for tensor in tensors], dtype=torch.int64)
        return cls(torch.cat(list(tensors)), sizes)

    def __len__(self) -> int:
        return len(self.sizes)

    @overload
    def __getitem__(self, site: int) -> Tensor: ...

    @overload
    def __getitem__(self, site: slice) -> Ragged: ...

    def __getitem__(self, site: int | slice) -> Tensor | Ragged:
        if isinstance(site, slice):
            return Ragged.of([self[k] for k in range(*site.indices(len(self)))])
        number = range(len(self))[site]  # refuses what is out of range, so that iteration ends
        return self.flat[int(self.offset[number]) : int(self.offset[number + 1])]

    def where(self, mask: Tensor) -> Ragged:
        """Of each site, the entries that a mask, aligned with `flat`, picks."""
        return Ragged(self.flat[mask], self.sums(mask.long()))

    def sums(self, values: Tensor) -> Tensor:
        """Of each site, the sum of values that are aligned with `flat`."""
        before = torch.cat([torch.zeros(1, dtype=torch.int64), values.cumsum(0)])
        return before[self.offset].diff()


def make_site(name: str, x: Numbers, rows: Tensor | slice, y: Tensor, classes: int) -> Site:
    """A site that holds these rows of x; what is no tensor yet becomes one now."""
    views = x.views(rows) if isinstance(x, Features) else None
    return Site(name, x[rows], y, classes, views)


@dataclass(frozen=True)
class SiteTable:
    """All sites of a simulated federation over one shared tensor; cheap for any number of sites.

    Holds inputs and given labels only: this is what worker processes see. Inputs on disk are
    decoded when their site is looked up.
    """

    x: Numbers  # all training inputs, normalised
    samples: Ragged  # each site's sample numbers
    given: Ragged  # labels as given, aligned with `samples`
    classes: int

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, site: int) -> Site:
        return make_site(f"site-{site}", self.x, self.samples[site], self.given[site], self.classes)

    def where(self, mask: Tensor) -> SiteTable:
        """Of each site, the samples that a mask, aligned with all of them, picks."""
        return replace(self, samples=self.samples.where(mask), given=self.given.where(mask))

    def size(self, site: int) -> int:
        """How many samples a site holds, without looking at them."""
        return int(self.samples.sizes[site])

    def share(self) -> SiteTable:
        """Moves the tensors to shared memory, so that workers read them without a copy."""
        self.x.share_memory_()
        for ragged in (self.samples, self.given):
            for tensor in (ragged.flat, ragged.sizes, ragged.offset):
                tensor.share_memory_()
        return self
