"""Where data sets lie: at the path that the config gives, or below the folder `FLR_DATA` names."""

from __future__ import annotations

import os
import pickle
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path

from flr.core.errors import DataError

VARIABLE = "FLR_DATA"

# What decoders raise on files that end early, are damaged, or lie about themselves.
BROKEN = (
    *(OSError, ValueError, TypeError, AttributeError, LookupError, ArithmeticError, RuntimeError),
    *(EOFError, MemoryError, SyntaxError, ImportError, AssertionError),
    *(struct.error, zlib.error, zipfile.BadZipFile, pickle.UnpicklingError, tokenize.TokenError),
)


def find(path: Path | None, names: Sequence[str], what: str, key: str = "[data] path") -> Path:
    """The folder (or file) of a data set that publishers give one of these names.

    `path` is it or holds it. Without a path it lies below $FLR_DATA, which is read now and not at
    import. `what` is the data set's name for `flr data get`; `key` is the setting that gave `path`.
    """
    folder = os.environ.get(VARIABLE, "").strip()
    if path is None and not folder:
        raise DataError(
            f'Expected to be told where the files of "{what}" are; neither {VARIABLE} nor {key} is '
            f"set, so {' or '.join(f'${VARIABLE}/{name}' for name in names)} could not be looked "
            f"at. {advice(what, key)}"
        )
    root = Path(folder).expanduser() if path is None else path
    places = [root / name for name in names] + ([] if path is None else [path])
    for place in places:
        if place.exists():
            return place
    raise DataError(
        f'Expected the files of "{what}" in one of these places: '
        f"{', '.join(str(place) for place in places)}; there is nothing. {advice(what, key)}"
    )


def advice(what: str, key: str = "[data] path") -> str:
    """How to get a data set, and how to say where it is."""
    return (
        f"Get it with `flr data get {what}`, set the environment variable {VARIABLE} to the folder "
        f"that holds your data sets, or give {key}."
    )


def damaged(file: Path, expected: str, got: str) -> DataError:
    """For a publisher's file with other content than it should have."""
    return DataError(
        f"{file}: expected {expected}; got {got}. It is damaged or another file: get it again."
    )


def require_file(path: Path, what: str) -> None:
    """Refuses a path that is not there, or is not a file."""
    if not path.exists():
        raise DataError(f"Expected {what} at {path}; there is none. Check the path.")
    if not path.is_file():
        raise DataError(f"Expected {what} at {path}; got a folder. Give the file's own path.")
    if not os.access(path, os.R_OK):
        raise DataError(f"Expected a readable file at {path}; it is not. Check its rights.")


def require_folder(path: Path) -> None:
    """Refuses a path that is not there, or is not a folder."""
    if not path.exists():
        raise DataError(f"Expected a folder at {path}; there is none. Check the path.")
    if not path.is_dir():
        raise DataError(f"Expected a folder at {path}; got a file. Give the folder that holds it.")
