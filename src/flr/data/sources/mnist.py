"""MNIST and Fashion-MNIST: four idx files, plain or as `.gz`."""

from __future__ import annotations

import gzip
import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
import torch

from flr.core.errors import DataError
from flr.core.registry import register
from flr.data import bombs, paths
from flr.data.checks import Array, times
from flr.data.dataset import Dataset, LabeledData, Normalization

_CLASSES = 10
_LARGEST = 2**31  # bytes
_BYTES = 0x08  # the type of values in all four files


@register("mnist", kind="dataset", title="MNIST", paper="LeCun et al., 1998", year=1998)
@dataclass(frozen=True)
class Mnist:
    """60,000 + 10,000 grey images of 28 x 28 pixels: handwritten digits, as idx files.

    `path` is the folder of the four files or the one that holds it as `mnist`; $FLR_DATA if left
    out. Normalised with mean 0.1307 and deviation 0.3081.
    """

    path: Path | None = None

    def load(self) -> Dataset:
        """All samples, in the publisher's order."""
        classes = tuple(str(digit) for digit in range(_CLASSES))
        train, test = _read("mnist", self.path, "mnist", "MNIST/raw")
        normalize = Normalization.of_pixels((0.1307,), (0.3081,))
        return Dataset("mnist", train, test, classes, normalize, noise_map="digits")


@register(
    "fashion-mnist", kind="dataset", title="Fashion-MNIST", paper="Xiao et al., 2017", year=2017
)
@dataclass(frozen=True)
class FashionMnist:
    """60,000 + 10,000 grey images of 28 x 28 pixels: pieces of clothing, as idx files.

    `path` is the folder of the four files or the one that holds it as `fashion-mnist`; $FLR_DATA if
    left out. Normalised with mean 0.2860 and deviation 0.3530.
    """

    path: Path | None = None

    def load(self) -> Dataset:
        """All samples, in the publisher's order."""
        classes = (
            *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
            *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
        )
        train, test = _read("fashion-mnist", self.path, "fashion-mnist", "FashionMNIST/raw")
        normalize = Normalization.of_pixels((0.2860,), (0.3530,))
        return Dataset("fashion-mnist", train, test, classes, normalize)


def _read(name: str, path: Path | None, *folders: str) -> tuple[LabeledData, LabeledData]:
    """Training and test part."""
    folder = paths.find(path, folders, name)
    train, test = (_read_part(folder, prefix, name) for prefix in ("train", "t10k"))
    return train, test


def _read_part(folder: Path, prefix: str, name: str) -> LabeledData:
    images_file = _file(folder, f"{prefix}-images-idx3-ubyte", name)
    labels_file = _file(folder, f"{prefix}-labels-idx1-ubyte", name)
    x, y = read_idx(images_file, 3), read_idx(labels_file, 1).astype(np.int64)
    if len(x) != len(y):
        raise DataError(
            f"Expected as many labels in {labels_file} as images in {images_file}; got {len(y):,} "
            f"and {len(x):,}. They do not belong together: get both again."
        )
    if y.max() >= _CLASSES:
        got = f"{y.max()} in sample {int(y.argmax())}"
        raise paths.damaged(labels_file, f"labels from 0 to {_CLASSES - 1}", got)
    return LabeledData(torch.from_numpy(x[:, None]), torch.from_numpy(y), torch.arange(len(y)))


def _file(folder: Path, name: str, what: str) -> Path:
    plain, packed = folder / name, folder / f"{name}.gz"
    for found in (plain, packed):
        if found.exists():
            paths.require_file(found, "an idx file")
            return found
    raise DataError(
        f"Expected {plain} or {packed.name} beside it; there is neither. {paths.advice(what)}"
    )


def read_idx(file: Path, dimensions: int) -> Array:
    """The bytes of an idx file as an array with so many dimensions."""
    try:
        with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as stream:
            shape = _header(file, stream, dimensions)
            size = math.prod(shape)
            bombs.refuse_size(file, size)
            content = stream.read(size)
            more = len(stream.read(1))
    except paths.BROKEN as error:
        raise paths.damaged(file, "an idx file", f"what cannot be read ({error})") from None
    if len(content) != size or more:
        got = "more" if more else f"{len(content):,}"
        expected = f"{size:,} bytes after the header, for {times(shape)} values"
        raise paths.damaged(file, expected, got)
    return np.frombuffer(bytearray(content), dtype=np.uint8).reshape(shape)


def _header(file: Path, stream: IO[bytes] | gzip.GzipFile, dimensions: int) -> tuple[int, ...]:
    """Two zero bytes, type, number of dimensions, then each of these as four bytes."""
    head = stream.read(4 + 4 * dimensions)
    magic = bytes([0, 0, _BYTES, dimensions])
    if head[:4] != magic or len(head) != 4 + 4 * dimensions:
        expected = (
            f"an idx file of bytes with {dimensions} dimensions, which begins with {magic.hex()}"
        )
        raise paths.damaged(file, expected, head[:4].hex() or "an empty file")
    shape = struct.unpack(f">{dimensions}I", head[4:])
    if not 0 < math.prod(shape) <= _LARGEST:
        got = f"a header that says {times(shape)}"
        raise paths.damaged(file, f"at least one value and at most {_LARGEST:,}", got)
    return shape
