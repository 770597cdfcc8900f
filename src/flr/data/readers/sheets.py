"""Tables as people have them: CSV in any usual dialect, or the first sheet of an Excel workbook.

What is written back keeps the dialect: only the cells that change are touched, so that quoting,
line ends and whatever else a program has left in the file stay as they are.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from flr.core.errors import DataError
from flr.core.plain_text import to_cell
from flr.data.paths import require_file
from flr.data.readers import workbooks

SUFFIXES = frozenset({".csv", ".tsv", ".tab", ".txt", *workbooks.SUFFIXES})

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_ENCODINGS = {"utf-8": "UTF-8", "utf-16-le": "UTF-16", "utf-16-be": "UTF-16"}
_ENCODINGS |= {"cp1252": "Windows-1252", "latin-1": "Latin-1"}
_DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_DECIMAL = re.compile(r"[+-]?\d*(,\d+)?(e[+-]?\d+)?", re.IGNORECASE)
_LOOKED_AT = 50  # rows by which the delimiter is chosen
_SEP = re.compile(r"sep=(.)(\r\n|\r|\n)")  # Excel's own first line


class Form(Protocol):
    """How a table is stored, for those who write it again."""

    def rewritten(self, column: int, cells: Mapping[int, str]) -> bytes:
        """The whole file with these cells in one column, by row; all others to the letter."""


@dataclass(frozen=True, eq=False)
class Sheet:
    """The cells of a table below its header, and where each row stands in the file."""

    path: Path
    header: list[str]  # as it stands
    rows: list[list[str]]  # those with content
    lines: list[int]  # where each row ends; in a workbook, its number
    form: Form
    said: str  # in what dialect it is; empty for the plainest
    delimiter: str | None  # None: a workbook

    @property
    def columns(self) -> list[str]:
        """The header without spaces around names."""
        return [name.strip() for name in self.header]

    def same_widths(self) -> None:
        """Refuses a row with fewer or more cells than the header has."""
        wide = len(self.header)
        for row, line in zip(self.rows, self.lines, strict=True):
            if len(row) != wide:
                raise DataError(
                    f"{self.path}, line {line}: expected {wide} cells as in the header; got "
                    f"{len(row)}. Add the missing cells, or quote those that hold "
                    f"{_DELIMITERS.get(self.delimiter or '', 'separators')}."
                )


def read_sheet(path: Path, what: str) -> Sheet:
    """Reads a table; `what` names it in a message. Blank rows do not count."""
    require_file(path, what)
    if path.suffix.lower() in workbooks.SUFFIXES:
        header, numbered, book = workbooks.read(path)
        rows, lines = list(numbered.values()), list(numbered)
        return Sheet(path, header, rows, lines, book, "an Excel workbook", None)
    try:
        raw = path.read_bytes()
        text, encoding, bom = _decoded(path, raw)
        start = found.end() if (found := _SEP.match(text)) else 0
        delimiter = found[1] if found else _delimiter(text)
        records = [r for r in _records(text, start, delimiter) if any(c.strip() for c in r.cells)]
    except (csv.Error, OSError) as error:
        raise DataError(
            f"{path}: expected a table; it cannot be read ({error}). Save it as CSV (UTF-8)."
        ) from error
    if not records:
        raise DataError(f"{path}: expected a header and rows; the file is empty. Take another.")
    first, *rest = records
    form = TextForm(path, text, encoding, bom, delimiter, [(r.start, r.end) for r in rest])
    cells, lines = [r.cells for r in rest], [r.line for r in rest]
    return Sheet(path, first.cells, cells, lines, form, form.said, delimiter)


def with_points(rows: list[list[str]]) -> None:
    """Decimal commas as points, in columns in which every cell is a number or empty."""
    for i in range(len(rows[0])):
        cells = [row[i].strip() for row in rows]
        if any("," in cell for cell in cells) and all(map(_DECIMAL.fullmatch, cells)):
            for row, cell in zip(rows, cells, strict=True):
                row[i] = cell.replace(",", ".")


@dataclass(frozen=True, eq=False)
class TextForm:
    """A CSV file as it stands, and where in it each row is."""

    path: Path
    text: str
    encoding: str
    bom: bytes
    delimiter: str
    spans: list[tuple[int, int]]

    @property
    def said(self) -> str:
        """For people, where it is not the plainest dialect."""
        marks = [] if self.delimiter == "," else [_DELIMITERS.get(self.delimiter, "separators")]
        plain = self.encoding == "utf-8"
        return ", ".join(marks + ([] if plain else [_ENCODINGS[self.encoding]]))

    def rewritten(self, column: int, cells: Mapping[int, str]) -> bytes:
        """Takes over everything between the cells that change."""
        parts, done = [], 0
        for row, cell in sorted(cells.items()):
            start, end = self._cell(row, column)
            parts += [self.text[done:start], self._quoted(to_cell(cell), self.text[start:end])]
            done = end
        changed = "".join([*parts, self.text[done:]])
        try:
            return self.bom + changed.encode(self.encoding)
        except UnicodeEncodeError as error:
            raise DataError(
                f"{self.path}: expected labels that its encoding, {_ENCODINGS[self.encoding]}, "
                f'can hold; got "{error.object[error.start : error.end]}". Save the file as '
                "CSV (UTF-8) first."
            ) from None

    def _cell(self, row: int, column: int) -> tuple[int, int]:
        """From where to where a cell goes, with its quotation marks."""
        start, end = self.spans[row]
        mark = re.escape(self.delimiter)
        cell = re.compile(rf'"(?:[^"]|"")*"[^{mark}\r\n]*|[^{mark}\r\n]*')
        for _ in range(column):
            start = cell.match(self.text, start, end).end() + 1  # type: ignore[union-attr]
        return start, cell.match(self.text, start, end).end()  # type: ignore[union-attr]

    def _quoted(self, cell: str, before: str) -> str:
        """In quotes if it was, or has to be."""
        if before.startswith('"') or any(mark in cell for mark in (self.delimiter, *'"\r\n')):
            return '"' + cell.replace('"', '""') + '"'
        return cell


@dataclass(frozen=True, slots=True)
class _Record:
    cells: list[str]
    line: int
    start: int
    end: int


def _records(text: str, start: int, delimiter: str) -> Iterator[_Record]:
    """All records, blank ones too."""
    read = start

    def lines() -> Iterator[str]:
        nonlocal read
        for line in io.StringIO(text[start:] if start else text, newline=""):
            read += len(line)
            yield line

    reader = csv.reader(lines(), delimiter=delimiter, strict=True)
    begun, above = start, 1 if start else 0
    for cells in reader:
        yield _Record(cells, reader.line_num + above, begun, read)
        begun = read


def _delimiter(text: str) -> str:
    """By which the header has most names, and the rows below as many; a comma in doubt."""

    def fits(delimiter: str) -> tuple[int, int]:
        widths = []
        try:
            for record in _records(text[: 2**20], 0, delimiter):
                widths += [len(record.cells)] if any(c.strip() for c in record.cells) else []
                if len(widths) == _LOOKED_AT:
                    break
        except csv.Error:
            pass  # a quote that does not end may mean the wrong delimiter, or where text was cut
        wide = widths[0] if widths else 1
        return (sum(width == wide for width in widths) if wide > 1 else 0), wide

    return max(_DELIMITERS, key=fits)


def _decoded(path: Path, raw: bytes) -> tuple[str, str, bytes]:
    """The text, its encoding and the mark at its beginning."""
    for bom, encoding in _BOMS:
        if raw.startswith(bom):
            return _as(path, raw[len(bom) :], encoding), encoding, bom
    for encoding, odd in (("utf-16-le", 1), ("utf-16-be", 0)):  # without a mark
        if len(raw) > 3 and 2 * raw[odd:2000:2].count(0) > len(raw[odd:2000:2]):
            return _as(path, raw, encoding), encoding, b""
    if b"\0" in raw:
        raise DataError(f"{path}: expected a table of text; got a binary file. Save it as CSV.")
    try:
        return raw.decode("utf-8"), "utf-8", b""
    except UnicodeDecodeError as error:
        _refuse_damaged(path, raw, error)
    for encoding in ("cp1252", "latin-1"):
        try:
            return raw.decode(encoding), encoding, b""
        except UnicodeDecodeError:
            continue
    raise AssertionError("Latin-1 has a letter for every byte")


def _as(path: Path, raw: bytes, encoding: str) -> str:
    try:
        return raw.decode(encoding)
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}: expected {_ENCODINGS[encoding]}, as its first bytes say; it cannot be read "
            f"({error.reason} at byte {error.start}). Save it as CSV (UTF-8)."
        ) from None


def _refuse_damaged(path: Path, raw: bytes, error: UnicodeDecodeError) -> None:
    """Text with letters of UTF-8 in it is UTF-8, however few of its bytes are not."""
    replaced = raw.decode("utf-8", "replace")
    wrong = replaced.count("\ufffd")
    if sum(not mark.isascii() for mark in replaced) - wrong > wrong:
        line = raw.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{path}, line {line}: expected UTF-8 as in the rest of the file; got other bytes. "
            "Correct the line, or save the file as CSV (UTF-8)."
        ) from None
