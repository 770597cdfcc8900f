"""labels.csv and corrections.csv: tables that people open, edit and save with other programs."""

from __future__ import annotations

import csv
import difflib
import io
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from flr.core.arrays import write_atomically
from flr.core.errors import DataError
from flr.core.plain_text import from_cell, to_cell
from flr.data.paths import require_file

LABELS = ("name", "label")
CORRECTIONS = ("name", "given", "decision", "label", "audit")

_LONGEST = 60  # characters of a label or name in a message
_BOM = "\ufeff"  # some spreadsheets put it first, and want it to be there again


@dataclass(frozen=True)
class LabelTable:
    """A CSV file as it stands: every cell is kept to the letter."""

    path: Path
    header: list[str]
    rows: list[list[str]]
    lines: list[int]  # where each row ends
    newline: str
    bom: bool

    def column(self, name: str) -> list[str]:
        """The cells below a name of the header, without what protects spreadsheets from them."""
        place = self._place(name)
        return [from_cell(row[place]) for row in self.rows]

    def with_column(self, name: str, cells: Sequence[str]) -> LabelTable:
        """The same table with other cells in one column; those that stay are not touched."""
        place, rows = self._place(name), []
        for row, cell in zip(self.rows, cells, strict=True):
            kept = from_cell(row[place]) == cell
            rows.append([*row[:place], row[place] if kept else to_cell(cell), *row[place + 1 :]])
        return replace(self, rows=rows)

    def text(self) -> str:
        """As it is written; read again, it is the same."""
        return (_BOM if self.bom else "") + _as_it_is(self.header, self.rows, self.newline)

    def _place(self, name: str) -> int:
        return [column.strip() for column in self.header].index(name)


def read_labels(path: Path) -> LabelTable:
    """Columns name and label, each name once; other columns may be there and are left alone.

    An empty label means that there is none yet.
    """
    table = read_table(path, "a table of labels", LABELS)
    if not table.rows:
        raise DataError(f"{path}: expected at least one row; got the header only. Add rows.")
    names = table.column("name")
    nameless = [line for line, name in zip(table.lines, names, strict=True) if not name.strip()]
    if nameless:
        raise DataError(
            f'{path}: expected the name of a sample in every row; the column "name" is empty in '
            f"{len(nameless):,} rows, the first on line {nameless[0]}. Fill it or remove the row."
        )
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise DataError(
            f"{path}: expected every sample once; {len(twice):,} are there more than once: "
            f"{some(twice)}. Leave one row of each."
        )
    return table


def read_table(path: Path, what: str, columns: Sequence[str]) -> LabelTable:
    """Any CSV file with a header that has these columns."""
    require_file(path, what)
    try:
        raw = path.read_bytes().decode("utf-8")
        text = raw.removeprefix(_BOM)
        reader = csv.reader(io.StringIO(text, newline=""), strict=True)
        found = [(row, reader.line_num) for row in reader if any(cell.strip() for cell in row)]
    except (UnicodeDecodeError, csv.Error, OSError) as error:
        raise DataError(
            f"{path}: expected a comma-separated table in UTF-8; it cannot be read ({error}). "
            "Save it as CSV (UTF-8)."
        ) from error
    if not found:
        raise DataError(
            f"{path}: expected a header with {', '.join(columns)}; the file is empty. "
            "Take another copy."
        )
    (header, _), *rest = found
    _check_header(path, [name.strip() for name in header], columns)
    for row, line in rest:
        if len(row) != len(header):
            raise DataError(
                f"{path}, line {line}: expected {len(header)} cells as in the header; got "
                f"{len(row)}. Add the missing cells, or quote those that hold commas."
            )
    newline = "\r\n" if text.partition("\n")[0].endswith("\r") else "\n"
    rows, lines = [row for row, _ in rest], [line for _, line in rest]
    return LabelTable(path, header, rows, lines, newline, raw != text)


def _check_header(path: Path, header: list[str], columns: Sequence[str]) -> None:
    if len(header) == 1 and any(mark in header[0] for mark in ";\t|"):
        raise DataError(
            f"{path}, line 1: expected names separated by commas; got {shown(header[0])}. "
            "Save the table with commas."
        )
    for column in columns:
        if header.count(column) != 1:
            near = difflib.get_close_matches(column, header, n=1, cutoff=0.5)
            hint = f" Is it {shown(near[0])}?" if near and column not in header else ""
            raise DataError(
                f"{path}, line 1: expected the columns {', '.join(columns)}, each once; got "
                f'{some(header, 20)}.{hint} Name the column "{column}".'
            )


def write_labels(path: Path, names: Sequence[str], labels: Sequence[str]) -> None:
    """A new labels.csv; one with other content is somebody's work, and stays."""
    text = as_csv(LABELS, zip(names, labels, strict=True))
    if path.exists() and path.read_bytes() != text.encode():
        raise DataError(
            f"Expected to write the labels of the data to {path}; a file with other content is "
            "there. Move it away, choose another --out, or audit its labels with --labels."
        )
    write_atomically(path, text)


def as_csv(header: Iterable[str], rows: Iterable[Iterable[str]], newline: str = "\n") -> str:
    """A new table; what a spreadsheet would take for a formula is protected."""
    return _as_it_is(header, ([to_cell(cell) for cell in row] for row in rows), newline)


def _as_it_is(header: Iterable[str], rows: Iterable[Iterable[str]], newline: str) -> str:
    """Cells that hold commas, quotes or line breaks are quoted."""

    class Lines(list[str]):
        write = list.append

    lines = Lines()  # with CRLF, since only then csv quotes a lone \r in a cell
    csv.writer(lines, lineterminator="\r\n").writerows([header, *rows])
    return "".join(line.removesuffix("\r\n") + newline for line in lines)


def some(texts: Sequence[str], most: int = 5) -> str:
    """The first few, for a message."""
    more = f" and {len(texts) - most:,} more" if len(texts) > most else ""
    return ", ".join(shown(text) for text in texts[:most]) + more


def shown(text: str) -> str:
    """A label or a name on one line of a terminal: quoted, short, without control characters."""
    plain = "".join(mark if mark.isprintable() else repr(mark)[1:-1] for mark in text[:_LONGEST])
    return f'"{plain}{"..." if len(text) > _LONGEST else ""}"'
