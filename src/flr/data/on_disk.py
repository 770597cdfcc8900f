"""Pictures that stay on disk: those of a site are decoded when it is asked, and forgotten with it.

A million photographs do not fit into memory; the pictures of the ten sites of a round do.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from flr.core.errors import ConfigError, DataError
from flr.data.features import Features
from flr.data.texts import Packed, Rows, Texts, pack


@dataclass(frozen=True, eq=False)
class Pictures(Packed):
    """Stands where a tensor n x 3 x side x side would: indexing decodes, and gives a real tensor.

    Each picture becomes RGB and is scaled to a square. The values are uint8, or float32 where
    `normalize` is set. Where memory is shared, that is the paths: workers decode for themselves.
    """

    root: Path
    text: Tensor  # uint8: all paths relative to the root, in UTF-8, one after the other
    ends: Tensor  # int64: where each of them ends
    side: int  # in pixels
    normalize: Callable[[Tensor], Tensor] | None = None

    @classmethod
    def of(cls, root: Path, paths: Sequence[str], side: int) -> Pictures:
        """Looks at no file."""
        return cls(root, *pack(paths), side)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """As of the tensor that this would be."""
        return len(self), 3, self.side, self.side

    def __getitem__(self, rows: Rows) -> Tensor:
        """Decodes now, one picture after the other: only the result is ever held as a whole."""
        numbers = self.numbers(rows)
        dtype = torch.uint8 if self.normalize is None else torch.float32
        out = torch.empty((len(numbers), *self.shape[1:]), dtype=dtype)
        for row, number in enumerate(numbers):
            pixels = self._decode(self.path(number))
            out[row] = pixels if self.normalize is None else self.normalize(pixels[None])[0]
        return out

    def take(self, rows: Rows) -> Pictures:
        """Fewer pictures; decodes none."""
        fewer = Pictures.of(self.root, [self.path(row) for row in self.numbers(rows)], self.side)
        return replace(fewer, normalize=self.normalize)

    def split(self, size: int) -> Iterator[Tensor]:
        """All pictures, so many at a time; each part is decoded when its turn comes."""
        for start in range(0, len(self), size):
            yield self[start : start + size]

    def path(self, number: int) -> str:
        """Relative to the root."""
        return self.string(number)

    def identity(self) -> bytes:
        """What a fingerprint hashes: paths and size. The pixels would take hours to read."""
        return f"pictures/{self.side}/{len(self)}/".encode() + self.content()

    def digests(self, rows: Rows) -> list[bytes]:
        """A hash of each picture's file and of the size it is shown in; decodes none."""
        found = []
        for path in map(self.string, self.numbers(rows)):
            content = hashlib.sha256(_content(self._file(path))).digest()
            found.append(hashlib.sha256(content + str(self.side).encode()).digest())
        return found

    def _decode(self, path: str) -> Tensor:
        from flr.data.readers.images import read_image  # Pillow: only those who decode need it

        return torch.from_numpy(read_image(self._file(path), self.side)).permute(2, 0, 1)

    def _file(self, path: str) -> Path:
        file = self.root / path
        if not file.is_file():
            raise DataError(
                f"Expected a picture at {file}; there is none. Unpack the archive that holds it "
                "again, or take it off the list that names it."
            )
        return file


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise DataError(
            f"{file}: expected an image; it cannot be read ({error}). Replace or remove it."
        ) from error


Numbers = Tensor | Pictures | Features  # what a network takes: in memory, or on disk
Inputs = Numbers | Texts  # all inputs of a data set


def as_numbers(x: Inputs) -> Numbers:
    """The inputs themselves; refuses texts, of which no network here makes anything."""
    if isinstance(x, Texts):
        raise ConfigError(
            f"Expected inputs that a network takes; got {len(x):,} texts. Turn them into features "
            "with a pretrained network: [data] backbone = ..."
        )
    return x
