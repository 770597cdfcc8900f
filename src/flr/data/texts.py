"""Texts as inputs: kept as bytes in one tensor, so that workers can share them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Self

import torch
from torch import Tensor

from flr.data.train_test_split import Indices

Rows = Tensor | Indices | slice


class Packed:
    """Strings in UTF-8, one after the other: what stand-ins for a tensor of inputs are made of.

    A million Python strings would take three times the room, and could not be shared between
    processes.
    """

    text: Tensor  # uint8: all strings
    ends: Tensor  # int64: where each of them ends

    def __len__(self) -> int:
        return len(self.ends)

    def string(self, number: int) -> str:
        """One of them."""
        start = int(self.ends[number - 1]) if number else 0
        return bytes(self.text[start : int(self.ends[number])].numpy()).decode()

    def share_memory_(self) -> Self:
        """Moves the strings to shared memory, as a tensor's values would be."""
        self.text.share_memory_()
        self.ends.share_memory_()
        return self

    def numbers(self, rows: Rows) -> list[int]:
        """The positions that an index means, as it would for a tensor."""
        found: list[int] = torch.arange(len(self))[rows].tolist()
        return found

    def content(self) -> bytes:
        """All strings and where they end."""
        return self.ends.numpy().astype("<i8").tobytes() + self.text.numpy().tobytes()


def pack(strings: Sequence[str]) -> tuple[Tensor, Tensor]:
    """The two tensors of `Packed`."""
    encoded = [string.encode() for string in strings]
    joined = bytearray(b"".join(encoded))
    text = torch.frombuffer(joined, dtype=torch.uint8) if joined else torch.empty(0).byte()
    return text, torch.tensor(list(accumulate(map(len, encoded))), dtype=torch.int64)


@dataclass(frozen=True, eq=False)
class Texts(Packed):
    """Stands where a tensor of n inputs would: indexing gives strings, which no network takes.

    A backbone turns them into features; until then nothing can be computed from them.
    """

    text: Tensor
    ends: Tensor

    @classmethod
    def of(cls, strings: Sequence[str]) -> Texts:
        """In this order."""
        return cls(*pack(strings))

    @property
    def shape(self) -> tuple[int]:
        """Of n inputs that have no dimensions of their own."""
        return (len(self),)

    def __getitem__(self, rows: Rows) -> list[str]:
        return [self.string(number) for number in self.numbers(rows)]

    def take(self, rows: Rows) -> Texts:
        """Fewer texts."""
        return Texts.of(self[rows])

    def identity(self) -> bytes:
        """What a fingerprint hashes: every text, whole."""
        return f"texts/{len(self)}/".encode() + self.content()
