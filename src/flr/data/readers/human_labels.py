"""CIFAR-10N and CIFAR-100N: labels that people gave to CIFAR's training images.

Their licence, CC BY-NC 4.0, forbids commercial use; they are read from the user's disk only.
"""

from __future__ import annotations

import hashlib
import pickle
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from flr.core.errors import DataError
from flr.data import bombs, paths
from flr.data.checks import Array
from flr.data.paths import BROKEN
from flr.data.readers import pickles
from flr.data.train_test_split import Indices

Which = Literal["worst", "aggregate", "random1", "random2", "random3", "noisy"]

CLEAN = "clean_label"
_KEYS: dict[Which, str] = {
    "worst": "worse_label",
    "aggregate": "aggre_label",
    "random1": "random_label1",
    "random2": "random_label2",
    "random3": "random_label3",
    "noisy": "noisy_label",
}


@dataclass(frozen=True)
class Publication:
    """One of the two label files."""

    name: str  # for `flr data get`
    stem: str
    classes: int


CIFAR10N = Publication("cifar10n", "CIFAR-10_human", 10)
CIFAR100N = Publication("cifar100n", "CIFAR-100_human", 100)
PUBLICATIONS = {publication.name: publication for publication in (CIFAR10N, CIFAR100N)}


@dataclass(frozen=True)
class HumanLabels:
    """True and given label of every training image, by its number in the publisher's order."""

    file: Path
    clean: Indices
    given: Indices


def publication(which: Which) -> Publication:
    """The file that has these labels."""
    return CIFAR100N if which == "noisy" else CIFAR10N


def load(path: Path | None, which: Which) -> HumanLabels:
    """Labels from the `.npz` or `.pt` file at `path`, in that folder, or in $FLR_DATA."""
    source = publication(which)
    names = [f"{source.stem}{suffix}" for suffix in (".npz", ".pt")]
    file = paths.find(path, names, source.name, "[noise] path")
    if not file.is_file():
        raise DataError(
            f"Expected {' or '.join(names)} in {file}; there is neither. "
            f"{paths.advice(source.name, '[noise] path')}"
        )
    state = file.stat()
    return _load(file, which, state.st_mtime_ns, state.st_size)


def digest(path: Path, source: Publication) -> str:
    """SHA-256 of all labels in a file, by their names: the same for `.npz` and `.pt`."""
    found = hashlib.sha256()
    for which, key in _KEYS.items():
        if publication(which) is source:
            labels = load(path, which)
            for name, array in ((CLEAN, labels.clean), (key, labels.given)):
                found.update(name.encode() + array.astype("<i8").tobytes())
    return found.hexdigest()


@lru_cache(maxsize=4)
def _load(file: Path, which: Which, _changed: int, _size: int) -> HumanLabels:
    """Remembers what it read while the file stays the same: noise asks once for every site."""
    keys = (CLEAN, _KEYS[which])
    try:
        if file.suffix.lower() == ".npz":
            with file.open("rb") as raw:
                bombs.refuse_archive(file, raw)
                with np.load(raw, allow_pickle=False) as archive:
                    found: Any = {key: archive[key] for key in keys if key in archive}
        else:  # torch's restricted unpickler, which is told of NumPy's arrays only
            with _numpy_allowed():
                found = torch.load(file, map_location="cpu", weights_only=True)
        if not isinstance(found, Mapping):
            raise DataError(
                f"Expected a dictionary of arrays at {file}; got {type(found).__name__}. Get the "
                "file again from its publisher."
            )
        clean, given = (_labels(file, key, found.get(key), which) for key in keys)
    except (*BROKEN, pickles.RefusedError) as error:
        raise _unreadable(file, error) from None
    if len(clean) != len(given):
        got = f"{len(given):,} for {len(clean):,}"
        raise paths.damaged(file, "as many labels as samples", got)
    for array in (clean, given):
        array.flags.writeable = False  # shared by all callers
    return HumanLabels(file, clean, given)


@contextmanager
def _numpy_allowed() -> Iterator[None]:
    """Allows torch NumPy's names, which lead to stand-ins.

    NumPy's own types would believe what a file says of their layout and read past the content; if
    the program around us has allowed them, they are put aside meanwhile.
    """
    others = torch.serialization.get_safe_globals()
    allowed: list[Any] = [(stand_in, name) for name, stand_in in pickles.NUMPY.items()]
    torch.serialization.clear_safe_globals()
    try:
        with torch.serialization.safe_globals(allowed):
            yield
    finally:
        torch.serialization.add_safe_globals(others)


def _labels(file: Path, key: str, value: Any, which: Which) -> Indices:
    array: Array | None = value.array if isinstance(value, pickles.StandInArray) else value
    if isinstance(value, torch.Tensor):
        array = value.numpy()
    if not (isinstance(array, np.ndarray) and array.dtype.kind in "iu" and array.ndim == 1):
        expected = f'an array of whole numbers "{key}", for labels = "{which}"'
        raise paths.damaged(file, expected, "none" if array is None else "something else")
    classes = publication(which).classes
    if len(array) == 0 or array.min() < 0 or array.max() >= classes:
        expected = f'labels from 0 to {classes - 1} in "{key}"'
        raise paths.damaged(file, expected, "others or none")
    return array.astype(np.int64)


def _unreadable(file: Path, error: Exception) -> DataError:
    reason = f"{type(error).__name__}: {error}"[:200]
    if isinstance(error, pickles.RefusedError):
        reason = f"it asks for {error}"
    elif isinstance(error, pickle.UnpicklingError):  # torch's own words advise to trust the file
        asked = re.search(r"GLOBAL (\S+)", str(error))
        reason = f"it asks for {asked[1]}" if asked else "it is damaged or holds something else"
    return DataError(
        f"Expected plain integer arrays in {file}; it cannot be read ({reason}). Nothing of it was "
        "run. Get the file again from its publisher."
    )
