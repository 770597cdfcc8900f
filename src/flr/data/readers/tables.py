"""Reads npz and CSV files; whatever is wrong with one becomes a DataError that says where."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from flr.core.errors import DataError
from flr.core.registry import nearest
from flr.data import bombs, checks
from flr.data.checks import Array, Samples
from flr.data.paths import BROKEN, require_file


def read_npz(path: Path) -> dict[str, Array]:
    """The arrays of an npz file that mean something here; pickled objects are refused, not run."""
    require_file(path, "an npz file")
    known = ("x", "y", "x_train", "y_train", "x_test", "y_test", "classes")
    try:
        with path.open("rb") as raw:
            bombs.refuse_archive(path, raw)
            with np.load(raw, allow_pickle=False) as file:
                found = {name: file[name] for name in known if name in file}
                names = list(file)
    except (AttributeError, TypeError) as error:  # a lone npy array is no archive
        raise DataError(
            f"Expected an npz file with named arrays at {path}; got a single array. "
            "Write it with numpy.savez(path, x=..., y=...)."
        ) from error
    except BROKEN as error:
        raise DataError(
            f"Expected an npz file of plain arrays at {path}; it cannot be read ({error}). "
            "Write it with numpy.savez(path, x=..., y=...), without objects."
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
    y = None
    if f"y{suffix}" in arrays:
        y = checks.labels(arrays[f"y{suffix}"], f'{path}: "y{suffix}"')
        checks.same_length(x, y, str(path))
    return Samples(x, y, [str(row) for row in range(len(x))])


def npz_classes(path: Path, arrays: dict[str, Array]) -> tuple[str, ...] | None:
    """The class names of an npz file that has some."""
    if "classes" not in arrays:
        return None
    return checks.class_list(arrays["classes"], f'{path}: "classes"')


def read_csv(path: Path, label: str, *, label_required: bool) -> Samples:
    """A table with a header: labels are text, all other columns numbers; rows are named by line."""
    header, rows = _rows(path)
    position = _label_position(path, header, label, required=label_required)
    columns = [i for i in range(len(header)) if i != position]
    if not columns:
        raise DataError(
            f'{path}: expected feature columns besides "{label}"; got none. Add at least one.'
        )
    x = np.empty((len(rows), len(columns)), dtype=np.float32)
    for at, (line, row) in enumerate(rows.items()):
        if len(row) != len(header):
            raise DataError(
                f"{path}, line {line}: expected {len(header)} cells as in the header; "
                f"got {len(row)}. Add the missing cells or quote those that hold commas."
            )
        if position is not None and not row[position].strip():
            raise DataError(
                f'{path}, line {line}, column "{label}": expected a class name; got an empty cell. '
                "Fill it or remove the row."
            )
        x[at] = _numbers([row[i] for i in columns])
        if not np.isfinite(x[at]).all():
            i = next(i for i in columns if not np.isfinite(_numbers([row[i]])).all())
            got = f'"{row[i]}"' if row[i].strip() else "an empty cell"
            raise DataError(
                f'{path}, line {line}, column "{header[i]}": expected a finite number; got {got}. '
                "Correct the cell, leave the column out or, if it has the classes, name it as the "
                "label."
            )
    y = None if position is None else np.array([row[position].strip() for row in rows.values()])
    return Samples(checks.inputs(x, str(path)), y, [str(line) for line in rows])


def _numbers(cells: list[str]) -> Array:
    """NaN for all where one is no number, infinity where it does not fit."""
    try:
        with np.errstate(over="ignore"):
            return np.array([float(cell) for cell in cells]).astype(np.float32)
    except ValueError:
        return np.full(len(cells), np.nan, dtype=np.float32)


def _rows(path: Path) -> tuple[list[str], dict[int, list[str]]]:
    """Header, and the rows that are not blank by the line on which each of them ends."""
    require_file(path, "a CSV file")
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            numbered = [(reader.line_num, row) for row in reader]
    except (UnicodeDecodeError, csv.Error, OSError) as error:
        raise DataError(
            f"{path}: expected a comma-separated table in UTF-8; it cannot be read ({error}). "
            "Save it as CSV (UTF-8)."
        ) from error
    rows = {line: row for line, row in numbered if any(cell.strip() for cell in row)}
    if len(rows) < 2:
        raise DataError(
            f"{path}: expected a header and at least one row; got {len(rows)} lines with content. "
            "Add rows."
        )
    header = [name.strip() for name in rows.pop(min(rows))]
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
    return header, rows


def _label_position(path: Path, header: list[str], label: str, *, required: bool) -> int | None:
    if label in header:
        return header.index(label)
    same = [name for name in header if name.casefold() == label.casefold()]
    if not required and not same:
        return None
    hint = f' Did you mean "{same[0]}"?' if same else nearest(label, header)
    shown = ", ".join(header[:20]) + (", ..." if len(header) > 20 else "")
    raise DataError(
        f'{path}, line 1: expected a label column "{label}"; got {shown}.{hint} '
        "Set `label` to the name of the column that holds the classes."
    )
