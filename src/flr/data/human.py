"""CIFAR-10N and CIFAR-100N: labels that people gave to CIFAR's training images.

Their licence, CC BY-NC 4.0, forbids commercial use; they are read from the user's disk only.
"""

from __future__ import annotations

import pickle
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from flr.data import files, pickles, places
from flr.data.checks import Array
from flr.data.split import Indices
from flr.errors import DataError

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

_BROKEN = (
    OSError,
    ValueError,
    EOFError,
    LookupError,
    RuntimeError,
    TypeError,
    AttributeError,
    MemoryError,
    ArithmeticError,
    AssertionError,
    struct.error,
    pickle.UnpicklingError,
    pickles.RefusedError,
    zipfile.BadZipFile,
    zlib.error,
)


@dataclass(frozen=True)
class Publication:
    """One of the two label files."""

    name: str  # for `flr data get`
    stem: str
    classes: int


CIFAR10N = Publication("cifar10n", "CIFAR-10_human", 10)
CIFAR100N = Publication("cifar100n", "CIFAR-100_human", 100)


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
    file = places.find(path, names, source.name, "[noise] path")
    if not file.is_file():
        raise DataError(
            f"Expected {' or '.join(names)} in {file}; there is neither. "
            f"{places.advice(source.name, '[noise] path')}"
        )
    state = file.stat()
    return _load(file, which, state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=4)
def _load(file: Path, which: Which, _changed: int, _size: int) -> HumanLabels:
    """Remembers what it read while the file stays the same: noise asks once for every site."""
    reader = _read_npz if file.suffix.lower() == ".npz" else _read_pt
    arrays = reader(file, (CLEAN, _KEYS[which]))
    clean, given = (_labels(file, key, arrays, which) for key in (CLEAN, _KEYS[which]))
    if len(clean) != len(given):
        raise DataError(
            f"{file}: expected as many labels as samples; got {len(given):,} for {len(clean):,}. "
            "The file is damaged: get it again."
        )
    for array in (clean, given):
        array.flags.writeable = False  # shared by all callers
    return HumanLabels(file, clean, given)


def _read_npz(file: Path, keys: tuple[str, ...]) -> dict[str, Any]:
    try:
        with file.open("rb") as raw, np.load(raw, allow_pickle=False) as archive:
            return {key: archive[key] for key in keys if key in archive}
    except _BROKEN as error:
        raise _unreadable(file, error) from None


def _read_pt(file: Path, keys: tuple[str, ...]) -> dict[str, Any]:
    """Through torch's restricted unpickler, which is told of NumPy's arrays only."""
    files.require(file, "a label file")
    try:
        with _numpy_allowed():
            found = torch.load(file, map_location="cpu", weights_only=True)
    except _BROKEN as error:
        raise _unreadable(file, error) from None
    if not isinstance(found, Mapping):
        raise DataError(
            f"Expected a dictionary of arrays at {file}; got {type(found).__name__}. Get the file "
            "again from its publisher."
        )
    return {key: _array(file, found[key]) for key in keys if key in found}


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


def _array(file: Path, value: Any) -> Any:
    if isinstance(value, pickles.StandInArray):
        return value.array
    try:
        return value.numpy() if isinstance(value, torch.Tensor) else value
    except _BROKEN as error:  # tensors without content, or with another layout
        raise _unreadable(file, error) from None


def _labels(file: Path, key: str, arrays: Mapping[str, Any], which: Which) -> Indices:
    array: Array | None = arrays.get(key)
    if not (isinstance(array, np.ndarray) and array.dtype.kind in "iu" and array.ndim == 1):
        raise DataError(
            f'{file}: expected an array of whole numbers "{key}", for labels = "{which}"; got '
            f"{'none' if array is None else 'something else'}. Get the file again, or check that "
            "it is the one for this data set."
        )
    classes = publication(which).classes
    if len(array) == 0 or array.min() < 0 or array.max() >= classes:
        raise DataError(
            f'{file}: expected labels from 0 to {classes - 1} in "{key}"; got others or none. The '
            "file is damaged or another one: get it again."
        )
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
