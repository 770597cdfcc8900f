"""Pictures that stay on disk: those of a site are decoded when it is asked, and forgotten with it.

A million photographs do not fit into memory; the pictures of the ten sites of a round do.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path

import torch
from torch import Tensor

from flr.core.errors import DataError
from flr.data.features import Features
from flr.data.train_test_split import Indices


@dataclass(frozen=True, eq=False)
class Pictures:
    """Stands where a tensor n x 3 x side x side would: indexing decodes, and gives a real tensor.

    Each picture becomes RGB and is scaled to a square. The values are uint8, or float32 where
    `normalize` is set. Paths are kept as bytes: a million strings would take three times the room,
    and could not be shared between processes.
    """

    root: Path
    text: Tensor  # uint8: all paths relative to the root, in UTF-8, one after the other
    ends: Tensor  # int64: where each of them ends
    side: int  # in pixels
    normalize: Callable[[Tensor], Tensor] | None = None

    @classmethod
    def of(cls, root: Path, paths: Sequence[str], side: int) -> Pictures:
        """Looks at no file."""
        encoded = [path.encode() for path in paths]
        text = torch.frombuffer(bytearray(b"".join(encoded)), dtype=torch.uint8)
        return cls(root, text, torch.tensor(list(accumulate(map(len, encoded)))), side)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """As of the tensor that this would be."""
        return len(self), 3, self.side, self.side

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, rows: Tensor | Indices | slice) -> Tensor:
        """Decodes now, one picture after the other: only the result is ever held as a whole."""
        numbers = self._numbers(rows)
        dtype = torch.uint8 if self.normalize is None else torch.float32
        out = torch.empty((len(numbers), *self.shape[1:]), dtype=dtype)
        for row, number in enumerate(numbers):
            pixels = self._decode(self.path(number))
            out[row] = pixels if self.normalize is None else self.normalize(pixels[None])[0]
        return out

    def take(self, rows: Tensor | Indices | slice) -> Pictures:
        """Fewer pictures; decodes none."""
        fewer = Pictures.of(self.root, [self.path(row) for row in self._numbers(rows)], self.side)
        return replace(fewer, normalize=self.normalize)

    def split(self, size: int) -> Iterator[Tensor]:
        """All pictures, so many at a time; each part is decoded when its turn comes."""
        for start in range(0, len(self), size):
            yield self[start : start + size]

    def path(self, number: int) -> str:
        """Relative to the root."""
        start = int(self.ends[number - 1]) if number else 0
        return bytes(self.text[start : int(self.ends[number])].numpy()).decode()

    def share_memory_(self) -> Pictures:
        """The paths, as a tensor's values would be; workers decode for themselves."""
        self.text.share_memory_()
        self.ends.share_memory_()
        return self

    def identity(self) -> bytes:
        """What a fingerprint hashes: paths and size. The pixels would take hours to read."""
        head = f"pictures/{self.side}/{len(self)}/".encode()
        return head + self.ends.numpy().astype("<i8").tobytes() + self.text.numpy().tobytes()

    def digests(self, rows: Tensor | Indices | slice) -> list[bytes]:
        """A hash of each picture's file and of the size it is shown in; decodes none."""
        found = []
        for number in self._numbers(rows):
            content = hashlib.sha256(_content(self._file(self.path(number)))).digest()
            found.append(hashlib.sha256(content + str(self.side).encode()).digest())
        return found

    def _numbers(self, rows: Tensor | Indices | slice) -> list[int]:
        numbers: list[int] = torch.arange(len(self))[rows].tolist()
        return numbers

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


Inputs = Tensor | Pictures | Features  # all inputs of a data set: in memory, or on disk
