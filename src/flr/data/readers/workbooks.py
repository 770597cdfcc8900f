"""The first sheet of an Excel workbook (.xlsx), read as text and written back with its formats."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any

from flr.core.errors import ConfigError, DataError
from flr.data import bombs
from flr.data.paths import BROKEN

SUFFIXES = frozenset({".xlsx", ".xlsm"})

_MOST_ROWS = 2**20
_CELL = 8  # bytes that an empty cell takes, at least
_PLENTY = 2**23  # bytes of XML: some of its elements take 200 times their size in memory


@dataclass(frozen=True)
class Workbook:
    """Where the rows with content stand in a file."""

    path: Path
    lines: list[int]

    def rewritten(self, column: int, cells: Mapping[int, str]) -> bytes:
        """With other texts in some cells; no text is taken for a formula."""
        book = _open(self.path, keep_vba=self.path.suffix.lower() == ".xlsm")
        for row, text in cells.items():
            cell = book.worksheets[0].cell(self.lines[row], column + 1)
            cell.value = _legal(self.path, text)
            cell.data_type = "s"
        file = io.BytesIO()
        book.save(file)
        return file.getvalue()


def read(path: Path) -> tuple[list[str], dict[int, list[str]], Workbook]:
    """Header, rows by their number, and what is needed to write the file again.

    Formulas count as the values that the workbook holds for them.
    """
    book = _open(path, read_only=True, data_only=True)
    try:
        filled = _filled(path, book.worksheets[0]) if book.worksheets else {}
    except DataError:
        raise
    except BROKEN as error:
        raise _damaged(path, error) from error
    finally:
        book.close()
    if not filled:
        raise DataError(f"{path}: expected a header and rows; its first sheet is empty. Fill it.")
    header = filled.pop(min(filled))
    while header and not header[-1]:  # what was formatted once counts as a column
        header.pop()
    rows = {line: row[: len(header)] for line, row in filled.items()}
    bombs.refuse_size(path, _CELL * len(header) * len(rows))
    for row in rows.values():
        row += [""] * (len(header) - len(row))
    return header, rows, Workbook(path, list(rows))


def _filled(path: Path, sheet: Any) -> dict[int, list[str]]:
    """The rows with content, each as far as it has some.

    A few bytes can say that a sheet has a billion rows, that each has a cell on the far right, or
    that all cells hold the same long text: what is kept of it is counted meanwhile.
    """
    filled, room = dict[int, list[str]](), 0
    sheet.reset_dimensions()  # what a file says of them may be less than it holds
    for line, row in enumerate(sheet.iter_rows(values_only=True), 1):
        if line > _MOST_ROWS:
            raise DataError(
                f"{path}: expected at most {_MOST_ROWS:,} rows, as Excel has; its first sheet says "
                "that it has more. Save it again, or as CSV (UTF-8)."
            )
        texts = [_text(value) for value in row] if _any(row) else []
        while texts and not texts[-1].strip():
            texts.pop()
        if texts:
            filled[line] = texts
            room += sum(map(len, texts)) + _CELL * len(texts)
            bombs.refuse_size(path, room)
    return filled


def _open(path: Path, **options: Any) -> Any:
    try:
        import openpyxl
    except ImportError:
        raise ConfigError(
            f"{path} needs the package openpyxl to be read; it is not installed. Install it with "
            '`pip install "flr[audit]"`, or save the table as CSV.'
        ) from None
    try:
        with path.open("rb") as file:
            bombs.refuse_archive(path, file, _PLENTY)
        return openpyxl.load_workbook(path, **options)
    except (*BROKEN, KeyError) as error:
        raise _damaged(path, error) from error


def _damaged(path: Path, error: BaseException) -> DataError:
    return DataError(
        f"{path}: expected an Excel workbook; it cannot be read ({error}). Save it again, or as "
        "CSV (UTF-8)."
    )


def _any(row: tuple[Any, ...]) -> bool:
    return any(value is not None and str(value).strip() for value in row)


def _text(value: Any) -> str:
    """As the sheet shows it: a class 3 is 3, also where Excel keeps numbers with a comma."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, datetime) and value.time() == datetime.min.time():
        return value.date().isoformat()
    return value.isoformat() if isinstance(value, date) else str(value)


def _legal(path: Path, text: str) -> str:
    from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE

    if ILLEGAL_CHARACTERS_RE.search(text):
        raise DataError(
            f"{path}: expected labels that a workbook can hold; got control characters in "
            f"{text!r}. Save the table as CSV first."
        )
    return text
