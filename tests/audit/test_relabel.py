"""`flr relabel`: what a person decided, nothing else; and whether all the work is worth it."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from flr.audit.labels_file import CORRECTIONS, as_csv
from flr.audit.relabel import relabel
from flr.core.errors import DataError
from flr.core.plain_text import from_cell
from flr.data.sources.files import read_samples

ROOT = Path(__file__).resolve().parents[2]
HEADER = ",".join(CORRECTIONS)
LABELS = "name,label,ward\n1.png,cat,A\n2.png,dog,B\n3.png,cat,C\n"


@pytest.fixture
def files(tmp_path, monkeypatch) -> Any:
    """Writes both files; further lines are corrections."""
    monkeypatch.chdir(tmp_path)

    def write(*lines: str, labels: str = LABELS) -> tuple[str, ...]:
        Path("labels.csv").write_bytes(labels.encode())
        Path("c.csv").write_text("\n".join([HEADER, *lines, ""]))
        return "relabel", "--labels", "labels.csv", "--corrections", "c.csv", "--out", "new.csv"

    return write


def test_accepted_labels_change_and_nothing_else(cli, files):
    command = files("3.png,cat,accept,horse,k", "1.png,cat,keep,,k", "2.png,dog,skip,,k")
    done = cli(*command)
    assert done.code == 0, done.err
    assert Path("new.csv").read_text() == LABELS.replace("3.png,cat", "3.png,horse")
    assert Path("labels.csv").read_text() == LABELS
    log = [line.split(",") for line in Path("new.csv.log.csv").read_text().splitlines()]
    assert log == [
        ["name", "before", "after", "decision", "audit"],
        ["3.png", "cat", "horse", "accept", "k"],
        ["1.png", "cat", "cat", "keep", "k"],
        ["2.png", "dog", "dog", "skip", "k"],
    ]
    assert "1 of 3 labels changed" in done.out
    assert 'no sample had these labels before: "horse"' in done.out
    assert all(len(line) <= 80 for line in done.out.splitlines())


def test_a_label_keeps_its_spaces_where_they_are_part_of_it(cli, files):
    labels = "name,label\n1, cat \n2,dog\n"
    assert cli(*files('2,dog,accept," cat ",', labels=labels)).code == 0
    assert Path("new.csv").read_text() == labels.replace("2,dog", "2, cat ")
    Path("new.csv").rename("first.csv")
    Path("new.csv.log.csv").unlink()
    assert cli(*files("1, cat ,accept, dog ,", labels=labels)).code == 0
    assert Path("new.csv").read_text() == labels.replace(" cat ", "dog")


def test_the_form_of_the_file_is_kept(cli, files):
    labels = '\ufeffward,label,name\r\n"A, old",cat,1\r\n"x\r\ny",dog,2\r\n'
    assert cli(*files("2,dog,accept,cat,", labels=labels)).code == 0
    assert Path("new.csv").read_bytes() == labels.replace("dog", "cat").encode()


PROBLEMS = {
    "has no such sample": ["9.png,cat,keep,,k"],
    'was reviewed as "dog"; labels.csv says "cat"': ["1.png,dog,keep,,k"],
    "come from 2 audits": ["1.png,cat,keep,,k", "2.png,dog,keep,,other"],
    'the decision is "perhaps"': ["1.png,cat,perhaps,,k"],
    'the decision is ""': ["1.png,cat,,,k"],
    "accept needs the new label": ["1.png,cat,accept, ,k"],
    "which is meant?": ["1.png,cat,keep,dog,k"],
    "is there twice, first on line 2": ["1.png,cat,keep,,k", "1.png,cat,accept,dog,k"],
}


@pytest.mark.parametrize("words", PROBLEMS)
def test_files_that_do_not_fit_are_refused(words, cli, files):
    done = cli(*files(*PROBLEMS[words]))
    assert done.code == 4
    assert words in done.message
    assert "Nothing was written" in done.message
    assert sorted(path.name for path in Path().iterdir()) == ["c.csv", "labels.csv"]


def test_all_problems_are_named_at_once_but_not_endlessly(cli, files):
    one_of_each = [PROBLEMS[words][0] for words in PROBLEMS]
    done = cli(*files(*one_of_each))
    for words in ("has no such sample", "was reviewed as", "perhaps", "accept needs", "which is"):
        assert words in done.message
    many = cli(*files(*(f"{n}.png,cat,keep,,k" for n in range(100, 200))))
    assert "100 things do not fit" in many.message
    assert many.err.count("has no such sample") == 20
    assert "and 80 more" in many.message


@pytest.mark.parametrize("name", ["new.csv", "new.csv.log.csv"])
def test_an_existing_file_stays(name, cli, files):
    command = files("1.png,cat,accept,dog,k")
    Path(name).write_text("mine")
    done = cli(*command)
    assert done.code == 4
    assert name in done.message
    assert Path(name).read_text() == "mine"


def test_decisions_cannot_be_applied_twice(cli, files):
    command = files("1.png,cat,accept,dog,k")
    assert cli(*command).code == 0
    again = cli("relabel", "--labels", "new.csv", "--corrections", "c.csv", "--out", "newer.csv")
    assert again.code == 4
    assert not Path("newer.csv").exists()


def test_without_decisions_the_labels_are_the_same(cli, files):
    assert cli(*files()).code == 0
    assert Path("new.csv").read_text() == LABELS


def test_the_work_of_two_people_is_one(cli, files, tmp_path):
    command = files("1.png,cat,accept,dog,k", "2.png,dog,skip,,k")
    (tmp_path / "d.csv").write_text(f"{HEADER}\n2.png,dog,keep,,k\n3.png,cat,accept,horse,k\n")
    done = cli(*command, "--corrections", "d.csv")
    assert done.code == 0, done.err
    assert Path("new.csv").read_text() == LABELS.replace("1.png,cat", "1.png,dog").replace(
        "3.png,cat", "3.png,horse"
    )
    assert "2.png,dog,dog,keep,k" in Path("new.csv.log.csv").read_text()
    assert "(accept 2, keep 1, skip 0)" in done.out


def test_where_two_people_differ_nothing_is_written(cli, files, tmp_path):
    command = files("1.png,cat,accept,dog,k", "2.png,dog,keep,,k")
    (tmp_path / "d.csv").write_text(f"{HEADER}\n2.png,dog,accept,cat,k\n1.png,cat,keep,,k\n")
    done = cli(*command, "--corrections", "d.csv")
    assert done.code == 4
    assert '"1.png": c.csv says accept "dog", d.csv says keep' in done.message
    assert '"2.png": c.csv says keep, d.csv says accept "cat"' in done.message
    assert not Path("new.csv").exists()


DIALECTS = {
    "German Excel": ("\ufeffName;Label;Alter\r\nä.png;groß;3,5\r\n", "utf-8"),
    "older German Excel": ('Name;Label;Alter\r\n"ä.png";"groß";3,5\r\n', "cp1252"),
    "English Excel": ("\ufeffname,label,age\r\nä.png,groß,3.5\r\n", "utf-8"),
    "Unicode text of Excel": ("\ufeffname\tlabel\tage\r\nä.png\tgroß\t3.5\r\n", "utf-16-le"),
    "with a line for Excel": ("sep=;\r\nname;label\r\nä.png;groß\r\n", "utf-8"),
    "no last line break": ("name,label\nä.png,groß", "utf-8"),
    "blank lines and quotes": ('name,label,x\n\nä.png,"groß","a ""b"""\n\n', "utf-8"),
}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_dialect_is_kept(dialect, cli, files):
    text, encoding = DIALECTS[dialect]
    command = files("ä.png,groß,accept,klein,k")
    Path("labels.csv").write_bytes(text.encode(encoding))
    done = cli(*command)
    assert done.code == 0, done.err
    assert Path("new.csv").read_bytes() == text.replace("groß", "klein").encode(encoding)
    assert Path("new.csv").stat().st_mode & 0o777 == 0o600


def test_a_label_that_the_encoding_cannot_hold_is_refused(cli, files):
    command = files("ä.png,groß,accept,漢,k")
    Path("labels.csv").write_bytes("name;label\nä.png;groß\n".encode("cp1252"))
    done = cli(*command)
    assert done.code == 4
    assert "Windows-1252" in done.message
    assert not Path("new.csv").exists()


def test_a_formula_stays_text_in_every_form(cli, files):
    assert cli(*files("1.png,cat,accept,=1+1,k")).code == 0
    assert "1.png,'=1+1,A" in Path("new.csv").read_text()
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in (["Name", "Label", "sum"], ["1.png", "cat", "=1+2"], ["2.png", 3, None]):
        book.active.append(row)
    book.active["A2"].font = openpyxl.styles.Font(bold=True)
    book.save("labels.xlsx")
    Path("d.csv").write_text(f"{HEADER}\n1.png,cat,accept,=1+1,k\n2.png,3,keep,,k\n")
    command = "relabel --labels labels.xlsx --corrections d.csv --out new.xlsx"
    done = cli(*command.split())
    assert done.code == 0, done.err
    sheet = openpyxl.load_workbook("new.xlsx").active
    assert (sheet["B2"].value, sheet["B2"].data_type) == ("=1+1", "s")
    assert (sheet["B3"].value, sheet["C2"].value) == (3, "=1+2")
    assert sheet["A2"].font.bold
    refused = cli(*command.replace("new.xlsx", "other.csv").split())
    assert refused.code == 4
    assert "the ending .xlsx" in refused.message


def test_names_may_be_written_otherwise_than_in_the_audit(cli, files):
    labels = "Name;Label\nC:\\scans\\1.PNG;cat\nC:\\scans\\2;dog\n"
    assert cli(*files("1.png,cat,accept,dog,k", "2.png,dog,keep,,k", labels=labels)).code == 0
    assert Path("new.csv").read_text() == labels.replace("cat", "dog")


# a table with a zero byte is taken for a binary file
LETTERS = st.characters(exclude_categories=("Cs",), exclude_characters="\0")
TEXT = st.text(LETTERS, min_size=1, max_size=8).filter(str.strip)


@given(
    st.dictionaries(TEXT, st.tuples(TEXT, st.sampled_from(["accept", "keep", "skip", ""]), TEXT))
)
def test_exactly_the_accepted_change(tmp_path_factory, decided):
    folder = tmp_path_factory.mktemp("relabel")
    labels = {name: label for name, (label, _, _) in decided.items()} | {"one more": "x"}
    (folder / "l.csv").write_bytes(as_csv(("name", "label"), labels.items()).encode())
    rows = [
        (name, given, decision, new if decision == "accept" else "", "k")
        for name, (given, decision, new) in reversed(decided.items())
        if decision and name != "one more"
    ]
    (folder / "c.csv").write_bytes(as_csv(CORRECTIONS, rows).encode())
    relabel(folder / "l.csv", [folder / "c.csv"], folder / "n.csv")
    with (folder / "n.csv").open(encoding="utf-8", newline="") as file:
        found = {from_cell(name): from_cell(label) for name, label in list(csv.reader(file))[1:]}
    accepted = {row[0]: row[3].strip() for row in rows if row[2] == "accept"}
    assert found == labels | accepted
    assert list(found) == list(labels)


@pytest.fixture(scope="module")
def page() -> dict[str, Any]:
    """The functions of the how-to."""
    text = (ROOT / "docs/how-to/audit-your-labels.md").read_text(encoding="utf-8")
    namespace: dict[str, Any] = {"__name__": "page"}
    for number, code in enumerate(re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)):
        exec(compile(code, f"audit-your-labels.md, block {number}", "exec"), namespace)  # noqa: S102
    return namespace


def test_correcting_what_the_audit_finds_makes_a_better_model(page, tmp_path):
    before, after = page["round_trip"](tmp_path, seed=1)
    assert after > before


def test_new_labels_go_back_into_every_kind_of_data(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    new = {"0": "b", "1": "b", "2": "a"}
    x = np.zeros((3, 2), dtype=np.float32)
    for name, y in (("text", np.array(["a", "b", "a"])), ("numbers", np.array([0, 1, 0]))):
        listed = {} if name == "text" else {"classes": np.array(["a", "b"])}
        np.savez(f"{name}.npz", x=x, y=y, **listed)
        page["npz_with"](new, f"{name}.npz", "new.npz")
        _, labels, classes, _ = read_samples(Path("new.npz"), ("a", "b"))
        assert (labels.tolist(), classes) == ([1, 1, 0], ("a", "b"))
    Path("old.csv").write_text('f,label\n1,a\n2,"two\nlines"\n3,a\n')
    _, _, _, lines = read_samples(Path("old.csv"), None)
    rows = [(lines[0], "a", "accept", "b", "k"), (lines[1], "two\nlines", "accept", "b", "k")]
    Path("c.csv").write_text(as_csv(CORRECTIONS, rows))
    relabel(Path("old.csv"), [Path("c.csv")], Path("new-table.csv"))
    x, labels, classes, _ = read_samples(Path("new-table.csv"), ("a", "b"))
    assert (x[:, 0].tolist(), labels.tolist()) == ([1, 2, 3], [1, 1, 0])
    for name in ("a/1.png", "b/1.png"):
        Path("old", name).parent.mkdir(parents=True)
        Image.new("RGB", (4, 4), "red" if name[0] == "a" else "blue").save(Path("old", name))
    page["folder_with"]({"a/1.png": "b", "b/1.png": "a"}, "old", "fresh")
    x, labels, _, _ = read_samples(Path("fresh"), ("a", "b"))
    assert labels.tolist() == [0, 1]
    assert x[:, 0, 0, 0].tolist() == [0, 255], "the picture that was b is a now"


def test_errors_come_before_anything_is_read(tmp_path):
    (tmp_path / "new.csv").touch()
    with pytest.raises(DataError, match="new file"):
        relabel(tmp_path / "gone.csv", [tmp_path / "gone-too.csv"], tmp_path / "new.csv")
