"""Tables with text and empty cells: turned into numbers by what the training rows look like.

Categories, medians and which columns have gaps are learned from the training rows of all sites
together, as mean and deviation are. Between real sites they would have to be agreed on: each site
would have to tell the categories of its text columns, its medians and where it has gaps.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flr.core.errors import DataError
from flr.data import checks
from flr.data.checks import Array, Samples
from flr.data.readers.tables import Table
from flr.data.train_test_split import Indices

_MISSING = ("", "na", "nan")  # in a column of numbers, in any case; of text only the first
_MOST_CATEGORIES = 1000


def needs_encoding(table: Table) -> bool:
    """Whether a column has gaps, or not a single number."""
    return any(_has_gaps(cells) or not any(map(_is_number, cells)) for cells in _columns(table))


def encoded(table: Table, training: Indices) -> Samples:
    """One feature for a number, one for each category, one for each column of numbers with gaps.

    Gaps in numbers become the median; an empty cell among texts is a category of its own.
    """
    numbers: list[Array] = []
    texts: list[Array] = []
    for column, cells in zip(table.features, _columns(table), strict=True):
        if _is_text(table, column, cells):
            texts.append(_categories(table, column, cells))
        else:
            numbers.append(_with_nan(cells))
    columns = np.empty((len(table.rows), len(numbers) + len(texts)), dtype=object)
    for at, values in enumerate([*numbers, *texts]):
        columns[:, at] = values
    transformer = _transformer(len(numbers), columns.shape[1])
    transformer.fit(columns[training])
    x = checks.inputs(transformer.transform(columns).astype(np.float64), str(table.path))
    return Samples(x, table.labels, table.lines, table.site)


def _transformer(numbers: int, columns: int) -> Any:
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.preprocessing import OneHotEncoder

    gaps = SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True)
    categories = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    parts = [("numbers", gaps, range(numbers)), ("texts", categories, range(numbers, columns))]
    used = [(name, part, list(own)) for name, part, own in parts if len(own)]
    return ColumnTransformer(used, sparse_threshold=0.0)


def _columns(table: Table) -> list[list[str]]:
    return [[row[i].strip() for row in table.rows.values()] for i in table.features]


def _is_text(table: Table, column: int, cells: list[str]) -> bool:
    """Text if no cell is a number; a column that is neither is most likely a slip of the pen."""
    filled = [cell for cell in cells if cell.casefold() not in _MISSING]
    if not filled:
        raise DataError(
            f'{table.path}, column "{table.header[column]}": expected numbers or text; all its '
            "cells are empty. Leave the column out."
        )
    if not any(map(_is_number, filled)):
        return True
    for line, cell in zip(table.rows, cells, strict=True):
        if cell.casefold() not in _MISSING and not np.isfinite(_as_float(cell)):
            advice = " A column of categories is one in which no cell is a number."
            raise table.no_number(line, column, advice)
    return False


def _categories(table: Table, column: int, cells: list[str]) -> Array:
    """Refuses what tells rows apart rather than groups of them: each would be a feature."""
    count = len(set(cells))
    if count > _MOST_CATEGORIES or count == len(cells):
        raise DataError(
            f'{table.path}, column "{table.header[column]}": expected categories, at most '
            f"{_MOST_CATEGORIES:,} and some more than once; got {count:,} in {len(cells):,} rows. "
            "Leave the column out if it names the rows; if it has sentences, use "
            '[data] name = "texts".'
        )
    return np.array(cells, dtype=object)


def _with_nan(cells: list[str]) -> Array:
    return np.array([_as_float(cell) for cell in cells])


def _has_gaps(cells: list[str]) -> bool:
    return any(cell.casefold() in _MISSING for cell in cells)


def _is_number(cell: str) -> bool:
    try:
        return not np.isnan(float(cell))
    except ValueError:
        return False


def _as_float(cell: str) -> float:
    """As float32 would hold it; NaN for what is missing, and for what is no number."""
    if not _is_number(cell):
        return float("nan")
    with np.errstate(over="ignore"):
        return float(np.float32(float(cell)))
