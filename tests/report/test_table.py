"""One table, four forms."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from flr.report.table import Table, save, to_csv, to_latex, to_markdown, to_rich

ROWS = [("a_b", "1.5", "-0.5"), ("c & d", "2.5±0.1", "–"), ("ρ ✓", "3 ± 1 [2]", "+1.0 ± 0.5")]
TABLE = Table(("method", "best", "lead"), ROWS, "In %.", rules={2})


def test_markdown_is_escaped_and_below_its_caption():
    caption, empty, heads, marks, *rows = to_markdown(TABLE).splitlines()
    assert (caption, empty, heads) == ("In %.", "", "| method | best | lead |")
    assert marks == "| :-- | --: | --: |"
    assert rows[0] == r"| a\_b | 1.5 | -0.5 |"


def test_csv_has_the_cells_as_they_are():
    assert to_csv(TABLE).splitlines()[2] == "c & d,2.5±0.1,–"


def test_latex_sets_numbers_as_formulas_and_rules_between_sections():
    lines = to_latex(TABLE).splitlines()
    assert lines[:3] == [r"\begin{table}", r"\caption{In \%.}", r"\begin{tabular}{lrr}"]
    assert lines[6:10] == [
        r"a\_b & 1.5 & $-0.5$ \\",
        r"c \& d & $2.5 \pm 0.1$ & -- \\",
        r"\midrule",
        r"$\rho$ \checkmark & 3 $\pm$ 1 [2] & $+1.0 \pm 0.5$ \\",
    ]
    assert to_latex(Table(("a",), [("b",)])).startswith(r"\begin{tabular}")


@pytest.mark.parametrize("lines", [True, False])
def test_a_terminal_shows_cells_as_they_are_and_folds_words(lines):
    text = io.StringIO()
    rows = [("[bold]", "a long name"), ("x", "y")]
    table = Table(("one", "two"), rows, align="ll")
    Console(file=text, width=60).print(to_rich(table, lines=lines, widest=6))
    shown = text.getvalue()
    assert "[bold]" in shown
    assert "a long name" not in shown
    assert ("──" in shown) == lines


def test_saving_writes_three_files(tmp_path):
    assert [path.name for path in save(TABLE, tmp_path / "t")] == ["t.md", "t.csv", "t.tex"]
