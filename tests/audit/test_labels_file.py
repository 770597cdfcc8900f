"""labels.csv: what people and their programs do to it, and that no cell is ever changed."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flr.audit.labels_file import LABELS, as_csv, read_labels, read_table, shown, write_labels
from flr.core.errors import DataError

HOSTILE = [
    "a, b",
    'say "no"',
    "<script>alert(1)</script>",
    "two\nlines",
    "two\r\nlines",
    "a\rreturn",
    "=1+1",
    "[red]x[/red]",
    "é 漢 😀",
    " spaces ",
    "\x1b[31mred",
]

# a zero byte is no text: a file with one is binary
LETTERS = st.characters(exclude_categories=("Cs",), exclude_characters="\0")
CELL = st.text(LETTERS, min_size=1, max_size=12).filter(str.strip)


@given(st.lists(st.tuples(CELL, CELL), min_size=1), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_every_cell_comes_back_as_it_was(tmp_path_factory, rows, newline, bom):
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    text = ("\ufeff" if bom else "") + as_csv(("name", "label"), rows, newline)
    path.write_bytes(text.encode())
    _, columns = read_table(path, "a table", LABELS)
    assert list(zip(*columns, strict=True)) == rows


@pytest.mark.parametrize("label", HOSTILE)
def test_labels_that_could_mean_something_else_are_text(label, tmp_path):
    write_labels(tmp_path / "l.csv", ["1.png", "2.png"], [label, "plain"])
    assert read_labels(tmp_path / "l.csv").labels == [label, "plain"]


FORMULAS = ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "'=1", "''@x"]


@pytest.mark.parametrize("label", FORMULAS)
def test_no_cell_is_a_formula_for_a_spreadsheet(label, tmp_path):
    write_labels(tmp_path / "l.csv", ["=name", "2.png"], [label, "-5"])
    with (tmp_path / "l.csv").open(newline="") as file:
        cells = [cell for row in csv.reader(file) for cell in row]
    assert [cell for cell in cells if cell[0] in "=+-@\t\r"] == ["-5"]  # a number is none
    table = read_labels(tmp_path / "l.csv")
    assert table.labels == [label, "-5"]
    assert table.names[0] == "=name"


def test_a_table_of_somebody_else_keeps_the_cells_that_nobody_changes(tmp_path):
    text = "name,label,more\n-a.png,=x,=1+1\n-b.png,y,-3\n"
    (tmp_path / "l.csv").write_text(text)
    table = read_labels(tmp_path / "l.csv")
    assert table.with_labels({1: "=z"}).decode() == text.replace(",y,", ",'=z,")


def test_a_file_of_somebody_else_is_not_overwritten(tmp_path):
    path = tmp_path / "labels.csv"
    write_labels(path, ["1"], ["cat"])
    write_labels(path, ["1"], ["cat"])
    with pytest.raises(DataError, match="other content"):
        write_labels(path, ["1"], ["dog"])
    assert read_labels(path).labels == ["cat"]


BROKEN = {
    "there is none": None,
    "the file is empty": "",
    "the header only": "name,label\n",
    "expected a column of labels": "name,width,height\n1,2,3\n",
    'expected one column "label"; got 2': "name,label,label\n1,cat,dog\n",
    "line 3: expected 2 cells": "name,label\n1,cat\n2,dog,big\n",
    "more than once": "name,label\n1,cat\n2,dog\n1,cat\n",
    "the column of names is empty": "name,label\n1,cat\n ,dog\n",
    "cannot be read": 'name,label\n1,"cat\n',
    "binary": "name,label\n1,\0\n",
    "line 3: expected UTF-8": "name,label\n1,größe\n2,\udcff\n3,ähre\n",
}


@pytest.mark.parametrize("words", BROKEN)
def test_what_is_wrong_is_said(words, tmp_path):
    path = tmp_path / "l.csv"
    text = BROKEN[words]
    if text is not None:
        path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(DataError) as error:
        read_labels(path)
    assert words in str(error.value)


def test_a_folder_is_no_table(tmp_path):
    with pytest.raises(DataError, match="got a folder"):
        read_labels(tmp_path)


@pytest.mark.parametrize(
    ("header", "names", "labels", "options"),
    [
        ("Name,Label,id", ["a", "b"], ["x", "y"], {}),
        (" NAME , label ,id", ["a", "b"], ["x", "y"], {}),
        ("Dateiname,Klasse,id", ["a", "b"], ["x", "y"], {}),
        ("scan,finding,id", ["a", "b"], ["x", "y"], {"name": "scan", "label": "FINDING"}),
        ("name,label,true", ["a", "b"], ["1", "2"], {"label": "true"}),
    ],
)
def test_columns_are_found_by_what_they_are_called(header, names, labels, options, tmp_path):
    (tmp_path / "l.csv").write_text(f"{header}\na,x,1\nb,y,2\n")
    table = read_labels(tmp_path / "l.csv", **options)
    assert table.names == names
    assert table.labels == labels


def test_of_two_columns_the_other_one_has_the_names(tmp_path):
    (tmp_path / "l.csv").write_text("scan,Label\na,x\n")
    assert read_labels(tmp_path / "l.csv").names == ["2"], "a line, for those who relabel"
    table = read_labels(tmp_path / "l.csv", guess=True)
    assert (table.names, table.labels) == (["a"], ["x"])
    assert table.said == 'l.csv: names from "scan", labels from "Label".'


def test_a_table_without_names_goes_by_its_lines(tmp_path):
    (tmp_path / "l.csv").write_text("a,b,label\n1,2,x\n\n3,4,y\n")
    assert read_labels(tmp_path / "l.csv").names == ["2", "4"]
    with pytest.raises(DataError, match='Is it "a"'):
        read_labels(tmp_path / "l.csv", name="aa")


def test_files_are_for_their_owner(tmp_path):
    write_labels(tmp_path / "l.csv", ["1"], ["cat"])
    assert (tmp_path / "l.csv").stat().st_mode & 0o777 == 0o600


def test_an_empty_label_is_no_error(tmp_path):
    path = Path(tmp_path, "l.csv")
    path.write_text("name,label\n1,cat\n2,\n")
    assert read_labels(path).labels == ["cat", ""]


def test_a_message_shows_labels_on_one_line_without_control_characters():
    assert shown("a\x1b[31m\nb") == '"a\\x1b[31m\\nb"'
    assert len(shown("x" * 1000)) < 80
