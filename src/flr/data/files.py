"""Reads npz and CSV files; whatever is wrong with one becomes a DataError that says where."""

from __future__ import annotations

import csv
import difflib
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from flr.data import checks
from flr.data.checks import Array, Samples
from flr.errors import DataError

_BROKEN = (
    OSError,
    ValueError,
    EOFError,
    KeyError,
    RuntimeError,
    MemoryError,
    SyntaxError,
    zipfile.BadZipFile,
    zlib.error,
)


def require(path: Path, what: str) -> None:
    """Refuses a path that is not there, or is not a file."""
    if not path.exists():
        raise DataError(f"Expected {what} at {path}; there is none. Check the path.")
    if not path.is_file():
        raise DataError(f"Expected {what} at {path}; got a folder. Give the file's own path.")


def read_npz(path: Path) -> dict[str, Array]:
    """The arrays of an npz file that mean something here; pickled objects are refused, not run."""
    require(path, "an npz file")
    known = ("x", "y", "x_train", "y_train", "x_test", "y_test", "classes")
    try:
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            found = {name: file[name] for name in known if name in file}
            names = list(file)
    except _BROKEN as error:
        raise DataError(
            f"Expected an npz file of plain arrays at {path}; it cannot be read ({error}). "
            "Write it with numpy.savez(path, x=..., y=...), without objects."
        ) from error
    except (AttributeError, TypeError) as error:  # a lone npy array is no archive
        raise DataError(
            f"Expected an npz file with named arrays at {path}; got a single array. "
            "Write it with numpy.savez(path, x=..., y=...)."
        ) from error
    for name, array in found.items():
        if not isinstance(array, np.ndarray):
            raise DataError(
                f'{path}: expected an array as "{name}"; got a file of another kind. '
                "Write it with numpy.savez(path, x=..., y=...)."
            )
    if not {"x", "x_train", "x_test"} & found.keys():
        raise DataError(
            f"{path}: expected arrays x, y or x_train, y_train, x_test, y_test; "
            f"got {', '.join(names) or 'none'}. Rename them."
        )
    return found


def npz_samples(path: Path, arrays: dict[str, Array], suffix: str = "") -> Samples:
    """The arrays x<suffix> and y<suffix> of an npz file; the labels may be missing."""
    if f"x{suffix}" not in arrays:
        raise DataError(
            f"{path}: expected an array x{suffix}; got {', '.join(sorted(arrays))}. Add it."
        )
    x = checks.inputs(arrays[f"x{suffix}"], f'{path}: "x{suffix}"')
    names = [str(row) for row in range(len(x))]
    if f"y{suffix}" not in arrays:
        return Samples(x, None, names)
    y = checks.labels(arrays[f"y{suffix}"], f'{path}: "y{suffix}"')
    checks.same_length(x, y, str(path))
    return Samples(x, y, names)


def read_csv(path: Path, label: str, *, label_required: bool) -> Samples:
    """A table with a header: labels are text, all other columns numbers; rows are named by line."""
    header, rows, lines = _rows(path)
    _check_header(path, header)
    position = _label_position(path, header, label, required=label_required)
    columns = [i for i in range(len(header)) if i != position]
    if not columns:
        raise DataError(
            f'{path}: expected feature columns besides "{label}"; got none. Add at least one.'
        )
    x = _numbers(path, header, rows, lines, columns)
    names = [str(line) for line in lines]
    if position is None:
        return Samples(checks.inputs(x, str(path)), None, names)
    y = np.array([row[position].strip() for row in rows])
    if (y == "").any():
        line = lines[int((y == "").argmax())]
        raise DataError(
            f'{path}, line {line}, column "{label}": expected a class name; got an empty cell. '
            "Fill it or remove the row."
        )
    return Samples(checks.inputs(x, str(path)), y, names)


def _rows(path: Path) -> tuple[list[str], list[list[str]], list[int]]:
    """Header, rows that are not blank, and the line on which each row ends."""
    require(path, "a CSV file")
    rows: list[list[str]] = []
    lines: list[int] = []
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            for row in reader:
                if any(cell.strip() for cell in row):
                    rows.append(row)
                    lines.append(reader.line_num)
    except (UnicodeDecodeError, csv.Error, OSError) as error:
        raise DataError(
            f"{path}: expected a comma-separated table in UTF-8; it cannot be read ({error}). "
            "Save it as CSV (UTF-8)."
        ) from error
    if len(rows) < 2:
        raise DataError(
            f"{path}: expected a header and at least one row; got {len(rows)} lines with content. "
            "Add rows."
        )
    return [name.strip() for name in rows[0]], rows[1:], lines[1:]


def _check_header(path: Path, header: list[str]) -> None:
    if len(header) == 1 and any(mark in header[0] for mark in ";\t|"):
        raise DataError(
            f'{path}, line 1: expected names separated by commas; got "{header[0]}". '
            "Save the table with commas."
        )
    for i, name in enumerate(header):
        if not name:
            raise DataError(
                f"{path}, line 1: expected a name for every column; column {i + 1} has none. "
                "Name it, or leave it out (an index that pandas wrote: to_csv(index=False))."
            )
        if name in header[:i]:
            raise DataError(
                f'{path}, line 1: expected distinct names; got "{name}" as columns '
                f"{header.index(name) + 1} and {i + 1}. Rename one."
            )


def _label_position(path: Path, header: list[str], label: str, *, required: bool) -> int | None:
    if label in header:
        return header.index(label)
    same = [name for name in header if name.casefold() == label.casefold()]
    if not required and not same:
        return None
    near = same or difflib.get_close_matches(label, header, n=1, cutoff=0.5)
    hint = f' Did you mean "{near[0]}"?' if near else ""
    shown = ", ".join(header[:20]) + (", ..." if len(header) > 20 else "")
    raise DataError(
        f'{path}, line 1: expected a label column "{label}"; got {shown}.{hint} '
        "Set `label` to the name of the column that holds the classes."
    )


def _numbers(
    path: Path, header: list[str], rows: list[list[str]], lines: list[int], columns: Sequence[int]
) -> Array:
    for row, line in zip(rows, lines, strict=True):
        if len(row) != len(header):
            raise DataError(
                f"{path}, line {line}: expected {len(header)} cells as in the header; "
                f"got {len(row)}. Add the missing cells or quote those that hold commas."
            )
    x = np.empty((len(rows), len(columns)), dtype=np.float32)
    for at, (row, line) in enumerate(zip(rows, lines, strict=True)):
        try:
            with np.errstate(over="ignore"):  # to infinity, which is refused below
                x[at] = [float(row[i]) for i in columns]
        except ValueError:
            x[at] = np.nan
        if not np.isfinite(x[at]).all():
            raise _bad_cell(path, header, row, line, columns)
    return x


def _bad_cell(
    path: Path, header: list[str], row: list[str], line: int, columns: Sequence[int]
) -> DataError:
    column = next(i for i in columns if not _is_number(row[i]))
    got = f'"{row[column]}"' if row[column].strip() else "an empty cell"
    return DataError(
        f'{path}, line {line}, column "{header[column]}": expected a finite number; got {got}. '
        "Correct the cell, leave the column out or, if it has the classes, name it as the label."
    )


def _is_number(text: str) -> bool:
    try:
        with np.errstate(over="ignore"):
            return bool(np.isfinite(np.float32(float(text))))
    except ValueError:
        return False
