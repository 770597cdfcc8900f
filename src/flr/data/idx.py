"""MNIST and Fashion-MNIST: four idx files, plain or as `.gz`."""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
import torch

from flr.data import files, places
from flr.data.checks import Array
from flr.data.dataset import Dataset, LabeledData, Normalisation
from flr.errors import DataError
from flr.registry import register

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
        train, test = read("mnist", self.path, ("mnist", "MNIST/raw"))
        normalise = Normalisation((255 * 0.1307,), (255 * 0.3081,))
        return Dataset("mnist", train, test, classes, normalise, noise_map="digits")


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
        train, test = read("fashion-mnist", self.path, ("fashion-mnist", "FashionMNIST/raw"))
        normalise = Normalisation((255 * 0.2860,), (255 * 0.3530,))
        return Dataset("fashion-mnist", train, test, classes, normalise)


def read(name: str, path: Path | None, folders: tuple[str, ...]) -> tuple[LabeledData, LabeledData]:
    """Training and test part."""
    folder = places.find(path, folders, name)
    return _read_part(folder, "train", name), _read_part(folder, "t10k", name)


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
        raise DataError(
            f"{labels_file}: expected labels from 0 to {_CLASSES - 1}; got {y.max()} in sample "
            f"{int(y.argmax())}. The file is damaged or another one: get it again."
        )
    return LabeledData(torch.from_numpy(x[:, None]), torch.from_numpy(y), torch.arange(len(y)))


def _file(folder: Path, name: str, what: str) -> Path:
    plain, packed = folder / name, folder / f"{name}.gz"
    found = next((file for file in (plain, packed) if file.exists()), None)
    if found is None:
        raise DataError(
            f"Expected {plain} or {packed.name} beside it; there is neither. {places.advice(what)}"
        )
    files.require(found, "an idx file")
    return found


def read_idx(file: Path, dimensions: int) -> Array:
    """The bytes of an idx file as an array with so many dimensions."""
    try:
        with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as stream:
            shape = _header(file, stream, dimensions)
            size = math.prod(shape)
            content = stream.read(size)
            more = len(stream.read(1))
    except (OSError, EOFError, zlib.error, MemoryError) as error:
        raise DataError(
            f"{file}: expected an idx file; it cannot be read ({error}). It is damaged or "
            "incomplete: get it again."
        ) from None
    if len(content) != size or more:
        got = "more" if more else f"{len(content):,}"
        raise DataError(
            f"{file}: expected {size:,} bytes after the header, for {_times(shape)} values; got "
            f"{got}. The file is damaged or incomplete: get it again."
        )
    return np.frombuffer(bytearray(content), dtype=np.uint8).reshape(shape)


def _header(file: Path, stream: IO[bytes] | gzip.GzipFile, dimensions: int) -> tuple[int, ...]:
    """Two zero bytes, type, number of dimensions, then each of these as four bytes."""
    head = stream.read(4 + 4 * dimensions)
    magic = bytes([0, 0, _BYTES, dimensions])
    if head[:4] != magic or len(head) != 4 + 4 * dimensions:
        raise DataError(
            f"{file}: expected an idx file of bytes with {dimensions} dimensions, which begins "
            f"with {magic.hex()}; got {head[:4].hex() or 'an empty file'}. It is another file, or "
            "damaged: get it again."
        )
    shape = struct.unpack(f">{dimensions}I", head[4:])
    if not 0 < math.prod(shape) <= _LARGEST:
        raise DataError(
            f"{file}: expected at least one value and at most {_LARGEST:,}; its header says "
            f"{_times(shape)}. The file is damaged: get it again."
        )
    return shape


def _times(shape: tuple[int, ...]) -> str:
    return " x ".join(f"{n:,}" for n in shape)
