"""Reads pickles of plain values and numeric arrays, and nothing else: no code of a file is run.

A pickle is a program that may call whatever it names. Here a name leads to a stand-in of our own or
to an error; the real callables, NumPy's too, are never handed out.
"""

from __future__ import annotations

import io
import math
import pickle
import pickletools
import re
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from flr.data import files
from flr.data.checks import Array
from flr.errors import DataError

_BROKEN = (
    pickle.UnpicklingError,
    EOFError,
    ValueError,  # and UnicodeError
    TypeError,
    AttributeError,
    LookupError,
    ArithmeticError,
    ImportError,
    MemoryError,
    RecursionError,
    struct.error,
)


def read_dict(path: Path) -> dict[str, Any]:
    """The dictionary of a pickle, also of one that Python 2 wrote; byte keys become text."""
    files.require(path, "a pickle")
    try:
        content = path.read_bytes()
        _refuse_wide_memo(content)
        found = _Unpickler(io.BytesIO(content), encoding="latin1").load()
    except _RefusedError as error:
        raise DataError(
            f"Expected a pickle of plain values and numeric arrays at {path}; it asks for "
            f"{error}, which such data do not need. Nothing of it was run. Get the file "
            "again from its publisher."
        ) from None
    except _BROKEN as error:
        raise DataError(
            f"Expected a pickle at {path}; it cannot be read ({type(error).__name__}: {error}). It "
            "is damaged or incomplete: get it again."
        ) from None
    except OSError as error:
        raise DataError(f"Expected a readable file at {path}; {error}. Check its rights.") from None
    if not isinstance(found, dict):
        raise DataError(
            f"Expected a pickled dictionary at {path}; got {type(found).__name__}. Get the file "
            "again from its publisher."
        )
    return {_text(key): _plain(value) for key, value in found.items()}


def _refuse_wide_memo(content: bytes) -> None:
    """Refuses to number values beyond the file's length: twelve bytes could ask for 64 GB.

    Python makes a table up to the largest number. Here the file is only cut into instructions.
    """
    for instruction, argument, _ in pickletools.genops(content):
        if instruction.name.endswith("PUT") and int(argument or 0) > len(content):
            raise _RefusedError(f"place {argument:,} of its memory")


class _RefusedError(Exception):
    """Says what a pickle asked for."""


class _Unpickler(pickle.Unpickler):
    """Knows four names, as Python 2 and 3 and NumPy before and since 2.0 write them."""

    def find_class(self, module: str, name: str) -> Any:
        """A new stand-in each time, so that a file can change none for the next."""
        if module in ("numpy.core.multiarray", "numpy._core.multiarray"):
            module = "numpy"
        maker = _STAND_INS.get((module, name))
        if maker is None:
            raise _RefusedError(f"{module}.{name}"[:200])
        return maker()

    def persistent_load(self, identity: Any) -> Any:
        """Objects from outside of the file."""
        raise _RefusedError("an object that is not in the file")


@dataclass(slots=True)
class _Type:
    """numpy.ndarray, which only says what is to be reconstructed."""


@dataclass(slots=True)
class _Dtype:
    """numpy.dtype: called with a type's name it is that type."""

    name: str = ""
    order: str = "="

    def __call__(self, name: Any, *_: Any) -> _Dtype:
        """Numbers and truth values only, never objects."""
        if not (isinstance(name, str) and re.fullmatch(r"b1|[iu][1248]|f[248]", name)):
            raise _RefusedError(f"an array of type {name!r}"[:200])
        return _Dtype(name)

    def __setstate__(self, state: Any) -> None:
        _version, order, *rest = state
        if order not in ("|", "<", ">", "=") or any(isinstance(part, tuple) for part in rest):
            raise _RefusedError("an array of records")
        self.order = order


@dataclass(slots=True)
class _Reconstruct:
    """numpy's `_reconstruct`: makes an array that gets its content later."""

    def __call__(self, *_: Any) -> _Unfinished:
        return _Unfinished()


@dataclass(slots=True)
class _Unfinished:
    """An array, as soon as its state has come."""

    array: Array | None = field(default=None)

    def __setstate__(self, state: Any) -> None:
        _version, shape, dtype, columns_first, content = state
        raw = content.encode("latin1") if isinstance(content, str) else content
        kind = np.dtype(dtype.name).newbyteorder(dtype.order)
        if not isinstance(raw, bytes) or len(raw) != math.prod(shape) * kind.itemsize:
            raise ValueError(f"an array of shape {shape} has the wrong number of bytes")
        order: Literal["C", "F"] = "F" if columns_first else "C"
        self.array = np.frombuffer(raw, dtype=kind).reshape(shape, order=order)


@dataclass(slots=True)
class _Encode:
    """`_codecs.encode`, by which Python 3 writes bytes for Python 2."""

    def __call__(self, text: Any, encoding: Any) -> bytes:
        if not isinstance(text, str) or encoding != "latin1":
            raise _RefusedError("a text in another encoding than latin1")
        return text.encode("latin1")


_STAND_INS = {
    ("numpy", "ndarray"): _Type,
    ("numpy", "dtype"): _Dtype,
    ("numpy", "_reconstruct"): _Reconstruct,
    ("_codecs", "encode"): _Encode,
}


def _text(value: Any) -> str:
    return value.decode("latin1") if isinstance(value, bytes) else str(value)


def _plain(value: Any) -> Any:
    return value.array if isinstance(value, _Unfinished) else value
