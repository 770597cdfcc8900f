"""CIFAR-10 and CIFAR-100 as their publisher packs them: binary records or Python pickles.

Both layouts hold the same samples in the same order, which is the publisher's order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from flr.core.errors import ConfigError, DataError
from flr.core.registry import register, unknown
from flr.data import checks, paths
from flr.data.checks import Array
from flr.data.dataset import Dataset, LabeledData, Normalization
from flr.data.readers import pickles

_SHAPE = (3, 32, 32)
_PIXELS = 3 * 32 * 32

# fmt: off
SUPERCLASSES = (
    "aquatic_mammals", "fish", "flowers", "food_containers", "fruit_and_vegetables",
    "household_electrical_devices", "household_furniture", "insects", "large_carnivores",
    "large_man-made_outdoor_things", "large_natural_outdoor_scenes",
    "large_omnivores_and_herbivores", "medium_mammals", "non-insect_invertebrates", "people",
    "reptiles", "small_mammals", "trees", "vehicles_1", "vehicles_2",
)
# fmt: on

# Samples in the publisher's order: uint8 n x 3 x 32 x 32, and int64 n x kinds of labels.
Part = tuple[Array, Array]


@dataclass(frozen=True)
class Packing:
    """How one of the two data sets lies on disk."""

    name: str
    folders: tuple[str, ...]
    train: Mapping[str, int]  # file name (binary: with .bin) -> number of samples
    test: Mapping[str, int]
    labels: Mapping[str, int]  # of each sample, in the order of a record -> number of classes
    listing: str  # text file of the class names
    meta: tuple[str, str]  # pickle of the class names, and their key


CIFAR10 = Packing(
    "cifar10",
    ("cifar-10-batches-bin", "cifar-10-batches-py"),
    {f"data_batch_{number}": 10_000 for number in range(1, 6)},
    {"test_batch": 10_000},
    {"labels": 10},
    "batches.meta.txt",
    ("batches.meta", "label_names"),
)
CIFAR100 = Packing(
    "cifar100",
    ("cifar-100-binary", "cifar-100-python"),
    {"train": 50_000},
    {"test": 10_000},
    {"coarse_labels": len(SUPERCLASSES), "fine_labels": 100},
    "fine_label_names.txt",
    ("meta", "fine_label_names"),
)


@register("cifar10", kind="dataset", title="CIFAR-10", paper="Krizhevsky, 2009", year=2009)
@dataclass(frozen=True)
class Cifar10:
    """50,000 + 10,000 colour images of 32 x 32 pixels, 10 classes; binary or Python version.

    `path` is the unpacked folder or the one that holds it; $FLR_DATA if left out. Normalised as
    FedCorr does it, with ImageNet's mean and deviation.
    """

    path: Path | None = None

    def load(self) -> Dataset:
        """All samples, in the publisher's order."""
        train, test, classes = read(CIFAR10, self.path)
        kept = np.arange(len(classes))
        return Dataset(
            name="cifar10",
            train=_keep(train, kept),
            test=_keep(test, kept),
            classes=classes,
            normalize=Normalization.of_pixels((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
            augment="crop-flip",
            noise_map="cifar10",
        )


@register("cifar100", kind="dataset", title="CIFAR-100", paper="Krizhevsky, 2009", year=2009)
@dataclass(frozen=True)
class Cifar100:
    """50,000 + 10,000 colour images of 32 x 32 pixels, 100 classes in 20 superclasses.

    `superclasses` keeps the five classes of each superclass named and numbers them anew, in their
    order. `path` is the unpacked folder, binary or Python version, or the one that holds it;
    $FLR_DATA if left out.
    """

    path: Path | None = None
    superclasses: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in self.superclasses:
            if name not in SUPERCLASSES:
                raise ConfigError(f"[data] {unknown('superclass', name, list(SUPERCLASSES))}")

    def load(self) -> Dataset:
        """The samples of the classes kept, in the publisher's order."""
        train, test, classes = read(CIFAR100, self.path)
        groups = _groups(np.concatenate([train[1], test[1]]))
        wanted = self.superclasses or SUPERCLASSES
        kept = np.array([c for c, group in enumerate(groups) if SUPERCLASSES[group] in wanted])
        own = shift_inside([groups[c] for c in kept])
        return Dataset(
            name="cifar100",
            train=_keep(train, kept),
            test=_keep(test, kept),
            classes=tuple(classes[c] for c in kept),
            normalize=Normalization.of_pixels((0.507, 0.487, 0.441), (0.267, 0.256, 0.276)),
            augment="crop-flip",
            noise_map=own if self.superclasses else "cifar100",
        )


def shift_inside(groups: Sequence[int]) -> tuple[int, ...]:
    """Each class becomes the next one of its group, the last one the first."""
    members: dict[int, list[int]] = {}
    for label, group in enumerate(groups):
        members.setdefault(group, []).append(label)
    return tuple(
        members[group][(members[group].index(label) + 1) % len(members[group])]
        for label, group in enumerate(groups)
    )


def read(packing: Packing, path: Path | None) -> tuple[Part, Part, tuple[str, ...]]:
    """Training part, test part and class names, from whichever layout is there."""
    folder = paths.find(path, packing.folders, packing.name)
    binary = _is_binary(packing, folder)
    reader = _read_binary if binary else _read_pickle
    parts = []
    for files in (packing.train, packing.test):
        pieces = [reader(folder, name, count, packing) for name, count in files.items()]
        x, labels = (np.concatenate(arrays) for arrays in zip(*pieces, strict=True))
        parts.append((x, labels))
    return parts[0], parts[1], _class_names(packing, folder, binary=binary)


def _is_binary(packing: Packing, folder: Path) -> bool:
    names = [*packing.train, *packing.test]
    if any((folder / f"{name}.bin").exists() for name in names):
        return True
    if any((folder / name).exists() for name in names):
        return False
    raise DataError(
        f'Expected the files of "{packing.name}" in {folder}: {names[0]}.bin ... (binary version) '
        f"or {names[0]} ... (Python version); got neither. {paths.advice(packing.name)}"
    )


def _read_binary(folder: Path, name: str, count: int, packing: Packing) -> Part:
    """Records of a byte for each kind of label and the pixels, plane after plane."""
    file = folder / f"{name}.bin"
    paths.require_file(file, f'a part of "{packing.name}"')
    width = len(packing.labels) + _PIXELS
    content = np.fromfile(file, dtype=np.uint8)
    if len(content) != count * width:
        expected = f"{count * width:,} bytes ({count:,} records of {width:,})"
        raise paths.damaged(file, expected, f"{len(content):,}")
    records = content.reshape(count, width)
    labels = records[:, :-_PIXELS].astype(np.int64)
    _check_labels(file, labels, packing)
    return records[:, -_PIXELS:].reshape(count, *_SHAPE), labels


def _read_pickle(folder: Path, name: str, count: int, packing: Packing) -> Part:
    """A dictionary with the array `data` and a list for each kind of label."""
    file = folder / name
    content = pickles.read_dict(file)
    columns = [_label_list(file, key, content.get(key), count) for key in packing.labels]
    labels = np.stack(columns, axis=1)
    _check_labels(file, labels, packing)
    data = content.get("data")
    if not (
        isinstance(data, np.ndarray) and data.dtype == np.uint8 and data.shape == (count, _PIXELS)
    ):
        expected = f'"data" of {count:,} x {_PIXELS:,} bytes'
        raise paths.damaged(file, expected, _kind(data))
    return data.reshape(count, *_SHAPE), labels


def _label_list(file: Path, key: str, values: Any, count: int) -> Array:
    whole = isinstance(values, list) and all(
        type(value) is int and value.bit_length() < 63 for value in values
    )
    if not whole or len(values) != count:
        got = f"a list of {len(values):,}" if isinstance(values, list) else _kind(values)
        raise paths.damaged(file, f'"{key}", a list of {count:,} whole numbers', got)
    return np.array(values, dtype=np.int64)


def _check_labels(file: Path, labels: Array, packing: Packing) -> None:
    for column, (key, classes) in enumerate(packing.labels.items()):
        wrong = (labels[:, column] < 0) | (labels[:, column] >= classes)
        if wrong.any():
            row = int(wrong.argmax())
            got = f"{labels[row, column]} in sample {row}"
            raise paths.damaged(file, f"{key} from 0 to {classes - 1}", got)


def _class_names(packing: Packing, folder: Path, *, binary: bool) -> tuple[str, ...]:
    file = folder / (packing.listing if binary else packing.meta[0])
    if binary:
        paths.require_file(file, f'the class names of "{packing.name}"')
        try:
            names: Any = file.read_text(encoding="utf-8").split()
        except UnicodeError as error:
            got = f"what cannot be read ({error})"
            raise paths.damaged(file, "class names, one on each line", got) from None
    else:
        names = pickles.read_dict(file).get(packing.meta[1])
    classes = list(packing.labels.values())[-1]
    if not isinstance(names, list) or len(names) != classes:
        got = f"{len(names)}" if isinstance(names, list) else _kind(names)
        raise paths.damaged(file, f"{classes} class names", got)
    for name in names:
        if not isinstance(name, str | bytes):  # the text of nested lists could fill the memory
            raise paths.damaged(file, "class names as text", _kind(name))
    return checks.class_list([pickles.text(name) for name in names], str(file))


def _groups(labels: Array) -> list[int]:
    """The superclass of each class, by its samples."""
    table = np.zeros(int(labels[:, 1].max()) + 1, dtype=np.int64)
    table[labels[:, 1]] = labels[:, 0]
    if (table[labels[:, 1]] != labels[:, 0]).any():
        raise DataError(
            '"cifar100": expected all samples of a class to have one superclass; some have '
            "another. The files are damaged: get them again."
        )
    return [int(group) for group in table]


def _keep(part: Part, classes: Array) -> LabeledData:
    """The samples of these classes, numbered anew; each keeps its number in the whole part."""
    x, y = part[0], part[1][:, -1]
    rows = np.flatnonzero(np.isin(y, classes))
    new = np.searchsorted(classes, y[rows])
    kept = x if len(rows) == len(y) else x[rows]
    return LabeledData(torch.from_numpy(kept), torch.from_numpy(new), torch.from_numpy(rows))


def _kind(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of {checks.times(value.shape)}, {value.dtype}"
    return "none" if value is None else type(value).__name__
