"""What a backbone has made of the samples, kept small: half precision, one or several views."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from flr.data.train_test_split import Indices

Rows = Tensor | Indices | slice


@dataclass(frozen=True, eq=False)
class Features:
    """Stands where a tensor n x features would: indexing gives float32, normalized if it is set.

    Of several views of a sample the first one is the sample as it is, and what indexing gives;
    the others show a part of it, perhaps mirrored.
    """

    values: Tensor  # n x views x features, float16
    normalize: Callable[[Tensor], Tensor] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """As of the tensor that this would be."""
        return len(self), int(self.values.shape[2])

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: Rows) -> Tensor:
        return self._plain(self.values[rows, 0])

    def views(self, rows: Rows) -> Tensor | None:
        """All views of some samples, n x views x features; None where there is but one."""
        n, views, width = (chosen := self.values[rows]).shape
        return None if views == 1 else self._plain(chosen.flatten(0, 1)).view(n, views, width)

    def take(self, rows: Rows) -> Features:
        """Fewer samples."""
        return replace(self, values=self.values[rows])

    def split(self, size: int) -> Iterator[Tensor]:
        """All samples as they are, so many at a time."""
        for start in range(0, len(self), size):
            yield self[start : start + size]

    def share_memory_(self) -> Features:
        """As of a tensor: workers read the values without a copy."""
        self.values.share_memory_()
        return self

    def identity(self) -> bytes:
        """What a fingerprint hashes."""
        return hashlib.sha256(self.values.contiguous().numpy().tobytes()).digest()

    def _plain(self, values: Tensor) -> Tensor:
        x = values.to(torch.float32)
        return x if self.normalize is None else self.normalize(x)
