"""Reads pickles of plain values and numeric arrays, and nothing else: no code of a file is run.

A pickle is a program that may call whatever it names. Here a name leads to a stand-in of our own or
to an error; the real callables, NumPy's too, are never handed out.
"""

from __future__ import annotations

import io
import math
import pickle
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from flr.core.errors import DataError
from flr.data.checks import Array
from flr.data.paths import BROKEN, require_file


class RefusedError(Exception):
    """Says what a pickle asked for."""


def read_dict(path: Path) -> dict[str, Any]:
    """The dictionary of a pickle, also of one that Python 2 wrote; byte keys become text."""
    require_file(path, "a pickle")
    raw = path.read_bytes()
    try:
        found = _Unpickler(io.BytesIO(raw), encoding="latin1").load()
    except RefusedError as error:
        raise DataError(
            f"Expected a pickle of plain values and numeric arrays at {path}; it asks for "
            f"{error}, which such data do not need. Nothing of it was run. Get the file "
            "again from its publisher."
        ) from None
    except BROKEN as error:
        raise DataError(
            f"Expected a pickle at {path}; it cannot be read ({type(error).__name__}: {error}). It "
            "is damaged or incomplete: get it again."
        ) from None
    if not isinstance(found, dict):
        raise DataError(
            f"Expected a pickled dictionary at {path}; got {type(found).__name__}. Get the file "
            "again from its publisher."
        )
    return {
        text(key): value.array if isinstance(value, StandInArray) else value
        for key, value in found.items()
    }


def text(value: str | bytes) -> str:
    """Text, also if Python 2 wrote it as bytes."""
    return value.decode("latin1") if isinstance(value, bytes) else value


class _Unpickler(pickle._Unpickler):
    """Knows a few names, as Python 2 and 3 and NumPy before and since 2.0 write them.

    Python's slower unpickler, whose instructions can be changed: a key of nested tuples must be
    refused before it is hashed, which could take for ever or overflow the stack. For the same
    reason there are no sets. Byte arrays are refused because their memory is taken before their
    bytes are there, however long they say that they are.
    """

    stack: list[Any]
    pop_mark: Callable[[], list[Any]]

    def find_class(self, module: str, name: str) -> Any:
        """A new stand-in each time, so that a file can change none for the next."""
        stand_in = {**NUMPY, "_codecs.encode": _encode}.get(f"{module}.{name}")
        if stand_in is None:
            raise RefusedError(f"{module}.{name}"[:200])
        return _Named(stand_in)

    def persistent_load(self, identity: Any) -> Any:
        """Objects from outside of the file."""
        raise RefusedError("an object that is not in the file")

    def _set_item(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self._fill([key, value])

    def _set_items(self) -> None:
        self._fill(self.pop_mark())

    def _make_dict(self) -> None:
        items = self.pop_mark()
        self.stack.append({})
        self._fill(items)

    def _fill(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if type(target) is not dict:
            raise pickle.UnpicklingError("it sets entries of something that is no dictionary")
        for key, value in zip(items[::2], items[1::2], strict=True):
            if not isinstance(key, str | bytes):
                raise RefusedError("a key that is no text")
            target[key] = value

    dispatch: ClassVar[dict[int, Any]] = {
        **pickle._Unpickler.dispatch,
        pickle.SETITEM[0]: _set_item,
        pickle.SETITEMS[0]: _set_items,
        pickle.DICT[0]: _make_dict,
    }
    for _refused in (pickle.EMPTY_SET, pickle.FROZENSET, pickle.ADDITEMS, pickle.BYTEARRAY8):
        del dispatch[_refused[0]]


@dataclass(slots=True)
class _Named:
    """What a name leads to: it can be called, and no more."""

    target: Callable[..., Any]

    def __call__(self, *arguments: Any) -> Any:
        return self.target(*arguments)

    def __setstate__(self, state: Any) -> None:
        raise RefusedError("another state of what it names")


class StandInDtype:
    """numpy.dtype: called with a type's name it is that type."""

    def __init__(self, name: Any, *_: Any) -> None:
        """Numbers and truth values only, never objects."""
        if not isinstance(name, str):
            raise RefusedError("an array of a type without a name")
        if not re.fullmatch(r"b1|[iu][1248]|f[248]", name):
            raise RefusedError(f"an array of type {name[:50]}")
        self.real = np.dtype(name)

    def __setstate__(self, state: Any) -> None:
        """Only the order of bytes: parts, fields, sizes and flags could lead past the content."""
        _version, order, *rest = state
        if order not in ("|", "<", ">", "=") or rest != [None, None, None, -1, -1, 0]:
            raise RefusedError("an array of records or of an unusual type")
        self.real = self.real.newbyteorder(order)


class StandInArray:
    """numpy.ndarray and what makes one: an array as soon as its state has come, if that fits."""

    array: Array | None = None

    def __init__(self, *_: Any) -> None:
        """The content comes later."""

    def __setstate__(self, state: Any) -> None:
        _version, shape, dtype, columns_first, content = state
        raw = content.encode("latin1") if isinstance(content, str) else content
        if not (
            isinstance(raw, bytes)
            and isinstance(dtype, StandInDtype)
            and isinstance(shape, tuple)
            and len(shape) <= 32
            and all(type(size) is int and 0 <= size < 2**48 for size in shape)
        ):
            raise ValueError("an array without a shape, a type or its bytes")
        if len(raw) != math.prod(shape) * dtype.real.itemsize:
            raise ValueError(f"an array of shape {shape} has the wrong number of bytes")
        flat = np.frombuffer(raw, dtype=dtype.real)
        self.array = flat.reshape(shape, order="F" if columns_first is True else "C")


def _encode(text: Any, encoding: Any) -> bytes:
    """`_codecs.encode`, by which Python 3 writes bytes for Python 2."""
    if not isinstance(text, str) or encoding != "latin1":
        raise RefusedError("a text in another encoding than latin1")
    return text.encode("latin1")


NUMPY: dict[str, Callable[..., Any]] = {
    "numpy.ndarray": StandInArray,
    "numpy.dtype": StandInDtype,
    "numpy.core.multiarray._reconstruct": StandInArray,
    "numpy._core.multiarray._reconstruct": StandInArray,
}
