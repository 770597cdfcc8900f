"""Rows of a table as samples: a column of texts, or columns of numbers and categories.

Other than for training, where sites must agree on features, columns may be of any kind: what
cannot be used is left out and said.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from flr.audit.labels_file import CLASSES, NAMES, TEXTS, cells, find_column, some
from flr.core.errors import DataError
from flr.data.checks import Array
from flr.data.readers import text_files
from flr.data.readers.sheets import Sheet, read_sheet, with_points
from flr.data.texts import Texts

if TYPE_CHECKING:
    from flr.audit.collect import Collection, Columns

_MISSING = ("", "na", "nan", "n/a", "null", "none", "#n/a", "?")
_IDS = ("id", "ids", "index", "nr", "no", "number", "key", "uuid", "unnamed: 0", "")
_MOST_CATEGORIES = 50
_WORDS = 4.0  # in the mean, from which on cells are sentences


def read(path: Path, columns: Columns) -> Collection:
    """Rows are called as the column of names says, else by their line."""
    if path.suffix.lower() in text_files.JSON_LINES:
        return _json_lines(path, columns)
    sheet = read_sheet(path, "a table")
    if not sheet.rows:
        raise DataError(f"{path}: expected at least one row; got the header only. Add rows.")
    sheet.same_widths()
    label = find_column(sheet, columns.label, CLASSES, "--label")
    name = find_column(sheet, columns.name, NAMES, "--name")
    names, notes = _names(sheet, name)
    labels = None if label is None else [c if c.strip() else None for c in cells(sheet, label)]
    notes += [f"{path.name} was read as {sheet.said}."] if sheet.said else []
    rest = [i for i in range(len(sheet.header)) if i not in (label, name)]
    text = find_column(sheet, columns.text, TEXTS, "--text")
    text = _sentences(sheet, rest) if text is None else text
    if text is not None:
        found = _texts(sheet, names, labels, text, notes)
    else:
        found = _numbers(sheet, names, labels, rest, notes)
    return found if label is None else replace(found, label=sheet.columns[label])


def _names(sheet: Sheet, column: int | None) -> tuple[list[str], list[str]]:
    lines = [str(line) for line in sheet.lines]
    if column is None:
        return lines, []
    names = cells(sheet, column)
    if len(set(names)) == len(names) and all(name.strip() for name in names):
        return names, []
    called = sheet.columns[column]
    return lines, [f'Column "{called}" does not name every row once, so rows go by their lines.']


def _json_lines(path: Path, columns: Columns) -> Collection:
    from flr.audit.collect import Collection

    found = text_files.read_texts(
        path, columns.text or "text", columns.label or "label", None, label_required=False
    )
    labels: list[str | None] | None = None if found.y is None else [str(y) for y in found.y]
    return Collection(path, "text", found.names, labels, found.x)


def _texts(
    sheet: Sheet, names: list[str], labels: list[str | None] | None, at: int, notes: list[str]
) -> Collection:
    from flr.audit.collect import Collection

    texts = [text.encode(errors="replace").decode() for text in cells(sheet, at)]
    empty = {row: "the text is empty" for row, text in enumerate(texts) if not text.strip()}
    notes = [*notes, f'Anything but the texts in column "{sheet.columns[at]}" and their labels.']
    return Collection(
        *(sheet.path, "text", names, labels, Texts.of(texts)), unreadable=empty, notes=tuple(notes)
    )


def _sentences(sheet: Sheet, columns: Sequence[int]) -> int | None:
    """The column with the longest texts, if it has sentences."""
    best, longest = None, _WORDS
    for i in columns:
        column = cells(sheet, i)
        words = mean(len(cell.split()) for cell in column)
        if words >= longest and 2 * len(set(column)) > len(column):
            best, longest = i, words
    return best


def _numbers(
    sheet: Sheet,
    names: list[str],
    labels: list[str | None] | None,
    columns: Sequence[int],
    notes: list[str],
) -> Collection:
    from flr.audit.collect import Collection

    if sheet.delimiter not in (",", None):
        with_points(sheet.rows)
    parts, called, unused = list[Array](), list[str](), list[str]()
    for i in columns:
        title, column = sheet.columns[i] or f"column {i + 1}", [c.strip() for c in cells(sheet, i)]
        used = None if _is_id(title, column) else _features(column)
        if used is None:
            unused.append(title)
            continue
        parts.append(used)
        called += [title] * used.shape[1]
    if not parts:
        raise DataError(
            f"{sheet.path}: expected columns of numbers, categories or texts besides names and "
            f"labels; got {some(sheet.columns, 10)}. Give the folder of the images if this is a "
            "table of labels: flr audit FOLDER LABELS."
        )
    if unused:
        notes = [*notes, f"Columns that name rows or mix numbers and text: {some(unused, 10)}."]
    x = torch.from_numpy(np.concatenate(parts, 1)).float()
    return Collection(
        *(sheet.path, "table", names, labels, x), columns=called, features=x, notes=tuple(notes)
    )


def _is_id(title: str, column: list[str]) -> bool:
    """Whether it tells rows apart and says nothing about them."""
    return title.casefold() in _IDS and len(set(column)) == len(column)


def _features(column: list[str]) -> Array | None:
    """One number each, gaps filled with the median; or one for each category. None: neither."""
    numbers = np.array([_number(cell) for cell in column])
    missing = np.array([cell.casefold() in _MISSING for cell in column])
    if not missing.all() and not np.isnan(numbers[~missing]).any():
        return np.where(missing, np.nanmedian(numbers[~missing]), numbers)[:, None]
    kinds = sorted(set(column))
    if not np.isnan(numbers).all() or len(kinds) > min(_MOST_CATEGORIES, len(column) / 2):
        return None
    return np.array([[cell == kind for kind in kinds] for cell in column], dtype=float)


def _number(cell: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        return float("nan")
    return value if abs(value) < np.finfo(np.float32).max else float("nan")


def standardized(x: Tensor) -> Tensor:
    """Columns with mean 0 and deviation 1; without those that have one value."""
    deviation, mean_of = x.double().std(0, correction=0), x.double().mean(0)
    kept = deviation > 0
    return ((x.double()[:, kept] - mean_of[kept]) / deviation[kept]).float()
