"""Reads npz files and tables; whatever is wrong with one becomes a DataError that says where."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from flr.core.errors import DataError
from flr.core.registry import nearest
from flr.data import bombs, checks
from flr.data.checks import Array, Samples
from flr.data.paths import BROKEN, require_file
from flr.data.readers.sheets import read_sheet, with_points


def read_npz(path: Path) -> dict[str, Array]:
    """The arrays of an npz file that mean something here; pickled objects are refused, not run."""
    require_file(path, "an npz file")
    known = ("x", "y", "x_train", "y_train", "x_test", "y_test", "classes", "site", "site_train")
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
    site = None
    if f"site{suffix}" in arrays:
        site = checks.labels(arrays[f"site{suffix}"], f'{path}: "site{suffix}"').astype(str)
        checks.same_length(x, site, str(path), "site")
    return Samples(x, y, [str(row) for row in range(len(x))], site)


def npz_classes(path: Path, arrays: dict[str, Array]) -> tuple[str, ...] | None:
    """The class names of an npz file that has some."""
    if "classes" not in arrays:
        return None
    return checks.class_list(arrays["classes"], f'{path}: "classes"')


@dataclass(frozen=True)
class Table:
    """The cells of a CSV file, and which of its columns are what."""

    path: Path
    header: list[str]
    rows: dict[int, list[str]]  # by the line on which each of them ends
    features: list[int]  # positions of the columns that are inputs
    labels: Array | None  # text
    site: Array | None  # text

    @property
    def lines(self) -> list[str]:
        """What rows are called."""
        return [str(line) for line in self.rows]

    def no_number(self, line: int, column: int, advice: str = "") -> DataError:
        """For a cell in which something else stands."""
        cell = self.rows[line][column]
        got = f'"{cell}"' if cell.strip() else "an empty cell"
        return DataError(
            f'{self.path}, line {line}, column "{self.header[column]}": expected a finite number; '
            f"got {got}. Correct the cell, leave the column out or, if it has the classes, name it "
            f"as the label.{advice}"
        )


def read_csv(path: Path, label: str, *, label_required: bool) -> Samples:
    """A table with a header: labels are text, all other columns numbers; rows are named by line."""
    table = read_table(path, label, label_required=label_required)
    advice = (
        " Text and empty cells are read only where the whole table is at hand, by [data] name = "
        '"csv": sites on their own would number categories differently.'
    )
    return numeric(table, advice)


def read_table(
    path: Path, label: str, site: str | None = None, *, label_required: bool = True
) -> Table:
    """Every row has all cells, and a label and a site where there are such columns."""
    header, rows = read_rows(path)
    own = {}
    if label_required or _but_for_case(header, label):
        own["label"] = position_of(path, header, label, "label")
    if site is not None:
        own["site"] = position_of(path, header, site, "site")
    check_widths(path, header, rows)
    cells = {key: column_of(path, header[at], at, rows) for key, at in own.items()}
    features = [i for i in range(len(header)) if i not in own.values()]
    if not features:
        raise DataError(
            f'{path}: expected feature columns besides "{label}"; got none. Add at least one.'
        )
    return Table(path, header, rows, features, cells.get("label"), cells.get("site"))


def check_widths(path: Path, header: list[str], rows: dict[int, list[str]]) -> None:
    """Refuses a row with fewer or more cells than the header has."""
    for line, row in rows.items():
        if len(row) != len(header):
            raise DataError(
                f"{path}, line {line}: expected {len(header)} cells as in the header; "
                f"got {len(row)}. Add the missing cells or quote those that hold commas."
            )


def column_of(path: Path, name: str, position: int, rows: dict[int, list[str]]) -> Array:
    """The names in a column of classes or sites; none of them may be missing."""
    for line, row in rows.items():
        if not row[position].strip():
            raise DataError(
                f'{path}, line {line}, column "{name}": expected a name; got an empty cell. '
                "Fill it or remove the row."
            )
    return np.array([row[position].strip() for row in rows.values()])


def numeric(table: Table, advice: str = "") -> Samples:
    """The samples of a table whose features are all numbers."""
    x = np.empty((len(table.rows), len(table.features)), dtype=np.float32)
    for at, (line, row) in enumerate(table.rows.items()):
        x[at] = _numbers([row[i] for i in table.features])
        if not np.isfinite(x[at]).all():
            bad = (i for i in table.features if not np.isfinite(_numbers([row[i]])).all())
            raise table.no_number(line, next(bad), advice)
    found = checks.inputs(x, str(table.path))
    return Samples(found, table.labels, table.lines, table.site)


def _numbers(cells: list[str]) -> Array:
    """NaN for all where one is no number, infinity where it does not fit."""
    try:
        with np.errstate(over="ignore"):
            return np.array([float(cell) for cell in cells]).astype(np.float32)
    except ValueError:
        return np.full(len(cells), np.nan, dtype=np.float32)


def read_rows(path: Path) -> tuple[list[str], dict[int, list[str]]]:
    """Header, and the rows that are not blank by the line on which each of them ends.

    In tables that are not separated by commas, 1,5 is a number.
    """
    sheet = read_sheet(path, "a table")
    header = sheet.columns
    if not sheet.rows:
        raise DataError(
            f"{path}: expected a header and at least one row; got 1 lines with content. Add rows."
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
    rows = dict(zip(sheet.lines, sheet.rows, strict=True))
    if sheet.delimiter not in (",", None):
        check_widths(path, header, rows)
        with_points(sheet.rows)
    return header, rows


def position_of(path: Path, header: list[str], name: str, what: str) -> int:
    """Where the column of labels, sites or texts is; `what` is the option that names it."""
    if name in header:
        return header.index(name)
    same = _but_for_case(header, name)
    hint = f' Did you mean "{same[0]}"?' if same else nearest(name, header)
    shown = ", ".join(header[:20]) + (", ..." if len(header) > 20 else "")
    holds = {"label": "classes", "site": "names of the sites", "text": "texts"}[what]
    raise DataError(
        f'{path}, line 1: expected a {what} column "{name}"; got {shown}.{hint} '
        f"Set `{what}` to the name of the column that holds the {holds}."
    )


def _but_for_case(header: list[str], name: str) -> list[str]:
    return [column for column in header if column.casefold() == name.casefold()]
