"""labels.csv and corrections.csv: tables that people open, edit and save with other programs."""

from __future__ import annotations

import csv
import difflib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from flr.core.arrays import write_atomically
from flr.core.errors import DataError
from flr.core.plain_text import from_cell, to_cell
from flr.data.readers.sheets import Sheet, read_sheet

LABELS = ("name", "label")
CORRECTIONS = ("name", "given", "decision", "label", "audit")
NAMES = (
    *("name", "names", "file", "files", "filename", "file_name", "file name", "filepath"),
    *("file_path", "path", "image", "image_name", "image_path"),
    *("datei", "dateiname", "bild", "bilddatei", "bildname", "pfad"),
)
CLASSES = ("label", "labels", "class", "category", "diagnosis", "klasse", "kategorie", "diagnose")

TEXTS = ("text", "texts", "sentence", "comment", "tweet", "review", "report", "document", "befund")

_LONGEST = 60  # characters of a label or name in a message
_PRIVATE = 0o600  # names and labels of samples are for their owner


@dataclass(frozen=True)
class LabelTable:
    """The names and labels in a table; where no column has names, they are the lines."""

    sheet: Sheet
    names: list[str]
    labels: list[str]
    at: int  # the column of labels
    called: str | None  # the column of names

    @property
    def label(self) -> str:
        """What the column of labels is called."""
        return self.sheet.columns[self.at]

    @property
    def said(self) -> str:
        """How it was read; empty for name,label with commas in UTF-8."""
        if (self.called, self.label) == LABELS and not self.sheet.said:
            return ""
        read = f" ({self.sheet.said})" if self.sheet.said else ""
        names = "the numbers of the lines" if self.called is None else shown(self.called)
        return f"{self.sheet.path.name}{read}: names from {names}, labels from {shown(self.label)}."

    def with_labels(self, changes: Mapping[int, str]) -> bytes:
        """The file again, with other labels in some rows; nothing else is touched."""
        return self.sheet.form.rewritten(self.at, changes)


def read_labels(
    path: Path, name: str | None = None, label: str | None = None, *, guess: bool = False
) -> LabelTable:
    """Names and labels, each name once; other columns may be there and are left alone.

    An empty label means that there is none yet. Columns that are not told are found by what they
    are usually called, in any case. With `guess`, of two columns the other one has the names.
    """
    sheet = read_sheet(path, "a table of labels")
    if not sheet.rows:
        raise DataError(f"{path}: expected at least one row; got the header only. Add rows.")
    at_label = label_column(sheet, label, name)
    at_name = find_column(sheet, name, NAMES, "--name")
    if at_name is None and guess and len(sheet.header) == 2:
        at_name = 1 - at_label
    sheet.same_widths()
    names = list(map(str, sheet.lines)) if at_name is None else cells(sheet, at_name)
    _refuse_names(sheet, names)
    called = None if at_name is None else sheet.columns[at_name]
    return LabelTable(sheet, names, cells(sheet, at_label), at_label, called)


def cells(sheet: Sheet, column: int) -> list[str]:
    """The cells of a column, without what protects spreadsheets from them."""
    return [from_cell(row[column]) for row in sheet.rows]


def label_column(sheet: Sheet, label: str | None = None, name: str | None = None) -> int:
    """Where the labels are: in the column told, that of a usual name, or the only one left."""
    found = find_column(sheet, label, CLASSES, "--label")
    if found is None and len(sheet.header) == 2:
        other = find_column(sheet, name, NAMES, "--name")
        found = None if other is None else 1 - other
    if found is None:
        raise DataError(
            f"{sheet.path}, line 1: expected a column of labels; got {some(sheet.columns, 20)}. "
            'Name it "label", or say which one it is with --label COLUMN.'
        )
    return found


def find_column(sheet: Sheet, told: str | None, usual: Sequence[str], option: str) -> int | None:
    """The column told, else the first that is called as usual, in any case; None if none is."""
    folded = [column.casefold() for column in sheet.columns]
    if told is not None:
        exact = [i for i, column in enumerate(sheet.columns) if column == told.strip()]
        found = exact or [i for i, column in enumerate(folded) if column == told.strip().casefold()]
        if len(found) != 1:
            near = difflib.get_close_matches(told, sheet.columns, n=1, cutoff=0.5)
            raise DataError(
                f'{sheet.path}, line 1: expected one column "{told}"; got '
                f"{some(sheet.columns, 20)}.{f' Is it {shown(near[0])}?' if near else ''} Correct "
                f"{option}."
            )
        return found[0]
    for called in usual:
        if folded.count(called) > 1:
            raise DataError(
                f'{sheet.path}, line 1: expected one column "{called}"; got {folded.count(called)}.'
                f" Rename one, or say which with {option} COLUMN."
            )
        if called in folded:
            return folded.index(called)
    return None


def _refuse_names(sheet: Sheet, names: Sequence[str]) -> None:
    path = sheet.path
    nameless = [line for line, name in zip(sheet.lines, names, strict=True) if not name.strip()]
    if nameless:
        raise DataError(
            f"{path}: expected the name of a sample in every row; the column of names is empty in "
            f"{len(nameless):,} rows, the first on line {nameless[0]}. Fill it or remove the row."
        )
    if len(set(names)) < len(names):
        twice = [name for name, count in Counter(names).items() if count > 1]
        raise DataError(
            f"{path}: expected every sample once; {len(twice):,} are there more than once: "
            f"{some(twice)}. Leave one row of each."
        )


def read_table(path: Path, what: str, columns: Sequence[str]) -> tuple[Sheet, list[list[str]]]:
    """Any table with a header that has these columns, in any case; and the columns' cells."""
    sheet = read_sheet(path, what)
    found = [find_column(sheet, column, (), "the header") for column in columns]
    sheet.same_widths()
    return sheet, [cells(sheet, at) for at in found if at is not None]


def write_labels(path: Path, names: Sequence[str], labels: Sequence[str]) -> None:
    """A new labels.csv; one with other content is somebody's work, and stays."""
    text = as_csv(LABELS, zip(names, labels, strict=True))
    if path.exists() and path.read_bytes() != text.encode():
        raise DataError(
            f"Expected to write the labels of the data to {path}; a file with other content is "
            "there. Move it away, choose another --out, or audit its labels with --labels."
        )
    write_privately(path, text)


def write_privately(path: Path, data: bytes | str) -> None:
    """For the owner's eyes."""
    write_atomically(path, data, mode=_PRIVATE)


def as_csv(header: Iterable[str], rows: Iterable[Iterable[str]], newline: str = "\n") -> str:
    """A new table; what a spreadsheet would take for a formula is protected."""

    class Lines(list[str]):
        write = list.append

    lines = Lines()  # with CRLF, since only then csv quotes a lone \r in a cell
    protected = ([to_cell(cell) for cell in row] for row in rows)
    csv.writer(lines, lineterminator="\r\n").writerows([header, *protected])
    return "".join(line.removesuffix("\r\n") + newline for line in lines)


def some(texts: Sequence[str], most: int = 5) -> str:
    """The first few, for a message."""
    more = f" and {len(texts) - most:,} more" if len(texts) > most else ""
    return ", ".join(shown(text) for text in texts[:most]) + more


def shown(text: str) -> str:
    """A label or a name on one line of a terminal: quoted, short, without control characters."""
    plain = "".join(mark if mark.isprintable() else repr(mark)[1:-1] for mark in text[:_LONGEST])
    return f'"{plain}{"..." if len(text) > _LONGEST else ""}"'
