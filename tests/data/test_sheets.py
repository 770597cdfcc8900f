"""Tables in every dialect that the usual programs write, as real files."""

from __future__ import annotations

import time
import tracemalloc
from pathlib import Path

import pytest

from flr.core.errors import ConfigError, DataError
from flr.data.readers.sheets import read_sheet
from flr.data.readers.tables import read_csv

CELLS = [["größe, x", "a;b"], ["two\nlines", 'say "no"'], ["漢", ""]]


def written(path: Path, delimiter: str, encoding: str, newline: str = "\r\n") -> Path:
    def cell(text: str) -> str:
        quoted = any(mark in text for mark in (delimiter, *'"\n'))
        return '"' + text.replace('"', '""') + '"' if quoted else text

    rows = [["Name", "Label"], *CELLS]
    lines = [delimiter.join(map(cell, row)) for row in rows]
    path.write_bytes(newline.join([*lines, ""]).encode(encoding))
    return path


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_every_dialect(delimiter, encoding, newline, tmp_path):
    sheet = read_sheet(written(tmp_path / "t.csv", delimiter, encoding, newline), "a table")
    assert (sheet.columns, sheet.rows) == (["Name", "Label"], CELLS)
    assert sheet.delimiter == delimiter
    assert ("UTF-16" in sheet.said) == ("16" in encoding)


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ("Name;Label\r\nä;ö\r\n".encode("cp1252"), "semicolons, Windows-1252"),
        (b"Name,Label\n\xe4,\x81\n", "Latin-1"),
        (b"sep=\t\r\nName\tLabel\r\na\tb\r\n", "tabs"),
        (b"Name,Label\na,b\n", ""),
    ],
)
def test_the_dialect_is_said(raw, said, tmp_path):
    (tmp_path / "t.csv").write_bytes(raw)
    sheet = read_sheet(tmp_path / "t.csv", "a table")
    assert sheet.said == said
    assert sheet.columns == ["Name", "Label"]
    assert sheet.lines == [3 if raw.startswith(b"sep") else 2]


def test_decimal_commas_and_categories_of_a_german_table(tmp_path):
    (tmp_path / "t.csv").write_text("a;b;label\n1,5;3;x\n-2;4;y\n,5;1e3;y\n")
    samples = read_csv(tmp_path / "t.csv", "label", label_required=True)
    assert samples.x.tolist() == [[1.5, 3.0], [-2.0, 4.0], [0.5, 1000.0]]


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"\x89PNG\r\n\0\0", "binary"),
        ("\ufeffa,b".encode("utf-16-le")[:-1], "UTF-16"),
        ("a;größe\nb;c\n".encode() + b"d;\xff\n", "line 3: expected UTF-8"),
        (b"  \n\n", "the file is empty"),
        (b'a,b\n1,"2\n', "cannot be read"),
    ],
)
def test_what_is_no_table(raw, words, tmp_path):
    (tmp_path / "t.csv").write_bytes(raw)
    with pytest.raises(DataError, match=words):
        read_sheet(tmp_path / "t.csv", "a table")


def test_a_workbook(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in (["Name", "Label", None], [], ["a.png", 3.0, None], ["b.png", True, "more"]):
        book.active.append(row)
    book.save(tmp_path / "t.xlsx")
    sheet = read_sheet(tmp_path / "t.xlsx", "a table")
    assert (sheet.columns, sheet.rows) == (["Name", "Label"], [["a.png", "3"], ["b.png", "TRUE"]])
    assert sheet.lines == [3, 4]
    (tmp_path / "broken.xlsx").write_bytes((tmp_path / "t.xlsx").read_bytes()[:500])
    with pytest.raises(DataError, match="expected an Excel workbook"):
        read_sheet(tmp_path / "broken.xlsx", "a table")


def test_a_workbook_without_its_package_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "openpyxl", None)
    (tmp_path / "t.xlsx").touch()
    with pytest.raises(ConfigError, match=r"flr\[audit\]"):
        read_sheet(tmp_path / "t.xlsx", "a table")


def test_a_large_table_takes_time_and_memory_in_proportion(tmp_path):
    rows = 50_000
    lines = "".join(f"ward/scan_{n:07}.png;class {n % 10};{n}\r\n" for n in range(rows))
    (tmp_path / "t.csv").write_bytes(f"Name;Label;id\r\n{lines}".encode("utf-8-sig"))
    tracemalloc.start()
    begun = time.monotonic()
    sheet = read_sheet(tmp_path / "t.csv", "a table")
    raw = sheet.form.rewritten(1, {rows - 1: "x"})
    taken, (_, peak) = time.monotonic() - begun, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert raw.endswith(b"scan_0049999.png;x;49999\r\n")
    assert peak < 1000 * rows, "a million rows fit into a GB"
    assert taken < 60
