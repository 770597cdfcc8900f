"""Turns arrays as users bring them into what the library wants, or says what is wrong with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from flr.core.errors import DataError
from flr.core.registry import unknown
from flr.data.on_disk import Inputs

Array = np.ndarray[Any, np.dtype[Any]]

_CHANNELS = (1, 3, 4)
_LARGEST_LABEL = 2**31 - 1


@dataclass(frozen=True)
class Samples:
    """What a reader found: inputs, labels (class numbers or class names), a name for each row."""

    x: Inputs
    y: Array | None
    names: list[str]
    site: Array | None = None  # the name of the site that holds each sample, if the file says so


def to_array(values: Any, where: str) -> Array:
    """NumPy or torch values (from any device) as NumPy."""
    if isinstance(values, Tensor):
        plain = values.detach().cpu()
        return plain.float().numpy() if plain.dtype == torch.bfloat16 else plain.numpy()
    try:
        return np.asarray(values)
    except ValueError as error:
        raise DataError(
            f"{where}: expected an array; got rows of different lengths ({error}). "
            "Give every sample the same shape."
        ) from None


def inputs(values: Any, where: str) -> Tensor:
    """Images as n x channels x height x width, features as n x d; never NaN or infinite."""
    array = to_array(values, where)
    if array.dtype.kind not in "fiub":
        raise DataError(
            f"{where}: expected numbers; got values of type {array.dtype}. "
            "Save the inputs as uint8 (images) or float32 (features)."
        )
    if array.ndim not in (2, 3, 4) or 0 in array.shape:
        raise DataError(
            f"{where}: expected at least one sample, as n x features, n x height x width or "
            f"n x height x width x channels; got shape {times(array.shape)}. Reshape the array."
        )
    if array.ndim > 2:
        array = _channels_first(array)
        if array.dtype == np.uint8:
            return torch.from_numpy(np.array(array, order="C"))
    with np.errstate(over="ignore"):
        array = np.array(array, dtype=np.float32, order="C")
    _refuse_not_finite(array, where)
    return torch.from_numpy(array)


def tokens(values: Any, where: str) -> Tensor:
    """Numbers of tokens as n x length, int64: whole numbers from 0."""
    array = to_array(values, where)
    if array.dtype.kind not in "iu" or array.ndim != 2 or 0 in array.shape or array.min() < 0:
        raise DataError(
            f"{where}: expected numbers of tokens, n x length, whole and from 0; got "
            f"{array.dtype} of shape {times(array.shape)}. Pad texts to one length, and number "
            "tokens from 0."
        )
    return torch.from_numpy(array.astype(np.int64))


def _channels_first(array: Array) -> Array:
    """Channels: the axis of 1, 3 or 4 entries; if both or neither end could be, the smaller one."""
    if array.ndim == 3:
        return array[:, None]
    first, last = array.shape[1], array.shape[3]
    if (first in _CHANNELS) == (last in _CHANNELS):
        already_first = first < last
    else:
        already_first = first in _CHANNELS
    return array if already_first else array.transpose(0, 3, 1, 2)


def _refuse_not_finite(array: Array, where: str) -> None:
    bad = ~np.isfinite(array.reshape(len(array), -1)).all(axis=1)
    if bad.any():
        raise DataError(
            f"{where}: expected finite numbers; {int(bad.sum()):,} of {len(array):,} samples hold "
            f"NaN or infinity, the first is sample {int(bad.argmax())}. Remove or fill them."
        )


def labels(values: Any, where: str) -> Array:
    """Class numbers (int64) or class names (text), one for each sample."""
    array = to_array(values, where)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise DataError(
            f"{where}: expected one label for each sample; got shape {times(array.shape)}. "
            "Turn one-hot labels into class numbers with argmax(1)."
        )
    if array.dtype.kind == "S":
        array = np.char.decode(array, "utf-8", "replace")
    if array.dtype.kind == "U":
        return array
    if array.dtype.kind not in "fiub":
        raise DataError(
            f"{where}: expected class numbers or class names; got values of type {array.dtype}. "
            "Save the labels as int64 or as text."
        )
    return _class_numbers(array, where)


def _class_numbers(array: Array, where: str) -> Array:
    whole = np.isfinite(array) & (array >= 0) & (array <= _LARGEST_LABEL)
    whole &= np.where(whole, array, 0) == np.floor(np.where(whole, array, 0))
    if not whole.all():
        row = int(np.argmin(whole))
        raise DataError(
            f"{where}: expected whole class numbers from 0; got {array[row]} in sample {row}. "
            "Number the classes 0, 1, 2, ... or give their names as text."
        )
    return array.astype(np.int64)


def class_list(names: Sequence[Any] | Array, where: str) -> tuple[str, ...]:
    """Class names in the order of the class numbers; each one distinct and not empty."""
    array = labels(names, where)
    classes = tuple(str(name) for name in array)
    if "" in classes or len(set(classes)) != len(classes):
        culprit = next(name for name in classes if not name or classes.count(name) > 1)
        raise DataError(
            f'{where}: expected distinct names; got "{culprit}" more than once or empty. '
            "Rename the classes."
        )
    return classes


def classes_of(y: Array, where: str) -> tuple[str, ...]:
    """The class list that labels imply: their names, sorted (numbers as numbers), or 0 ... max."""
    if len(y) == 0:
        raise DataError(f"{where}: expected at least one label; got none. Add samples.")
    if y.dtype.kind == "U":
        return class_list(in_order(y), where)
    present = np.unique(y)
    if len(present) <= present[-1]:
        empty = int(np.argmax(present != np.arange(len(present))))
        raise DataError(
            f"{where}: expected every class from 0 to {present[-1]} to have samples; "
            f"class {empty} has none. Number the classes without gaps."
        )
    return tuple(str(number) for number in present)


def in_order(names: Array) -> list[str]:
    """Distinct names, sorted; as numbers, if all of them are."""
    found = [str(name) for name in np.unique(names)]
    if all(name.isdecimal() for name in found):
        found.sort(key=lambda name: (int(name), name))
    return found


def encode(y: Array, classes: tuple[str, ...], where: str) -> Tensor:
    """Labels as positions in `classes`; an unknown class is an error that names the nearest."""
    if y.dtype.kind == "U":
        present, inverse = np.unique(y, return_inverse=True)
        position = {name: i for i, name in enumerate(classes)}
        for name in present:
            if str(name) not in position:
                raise DataError(f"{where}: {unknown('class', str(name), list(classes))}")
        table = np.array([position[str(name)] for name in present], dtype=np.int64)
        return torch.from_numpy(table[inverse.reshape(-1)])
    if len(y) and y.max() >= len(classes):
        raise DataError(
            f"{where}: expected class numbers from 0 to {len(classes) - 1}; got {y.max()} in "
            f"sample {int(y.argmax())}. Give the class list that these labels were made with."
        )
    return torch.from_numpy(y.copy())


def same_length(x: Tensor, y: Array, where: str, what: str = "label") -> None:
    """Refuses inputs and labels (or what else comes with them) that cannot belong together."""
    if len(x) != len(y):
        raise DataError(
            f"{where}: expected one {what} for each sample; got {len(x):,} samples and "
            f"{len(y):,} {what}s. Save them from the same rows."
        )


def times(shape: Sequence[int]) -> str:
    """A shape in words: 3 x 32 x 32."""
    return " x ".join(str(n) for n in shape) or "() (a single value)"
