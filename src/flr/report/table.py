"""A table of plain text, and its forms: Markdown, CSV, LaTeX, and for the terminal."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich import box
from rich.table import Table as RichTable
from rich.text import Text

from flr.core.arrays import write_atomically
from flr.core.plain_text import printable
from flr.report.formatting import latex, markdown

_NUMBER = re.compile(r"[+-]\d[\d.]*|([+-]?\d[\d.]*) ?± ?\d[\d.]*")
_SIGNS = {"±": r"\pm", "✗": r"\times", "○": r"\circ", "△": r"\triangle"}
_SIGNS |= {"ρ": r"\rho", "τ": r"\tau", "α": r"\alpha", "β": r"\beta", "γ": r"\gamma"}
_LATEX = {"–": "--", "✓": r"\checkmark"} | {sign: f"${name}$" for sign, name in _SIGNS.items()}


@dataclass(frozen=True)
class Table:
    """Heads and rows of cells.

    `align` has "l" or "r" for the first columns, the others are "r"; `rules` are the numbers of
    rows with a line above them; `bold` are (row, column) of the best.
    """

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    align: str = "l"
    rules: Collection[int] = ()
    bold: Collection[tuple[int, int]] = ()

    @property
    def alignment(self) -> str:
        """A letter for every column."""
        return self.align.ljust(len(self.heads), "r")


def save(table: Table, stem: Path) -> list[Path]:
    """Writes stem.md, stem.csv and stem.tex."""
    forms = {".md": to_markdown, ".csv": to_csv, ".tex": to_latex}
    for suffix, form in forms.items():
        write_atomically(stem.with_suffix(suffix), form(table))
    return [stem.with_suffix(suffix) for suffix in forms]


def to_markdown(table: Table) -> str:
    """A pipe table below its caption; rules have no Markdown."""
    marks = [":--" if side == "l" else "--:" for side in table.alignment]
    heads, *rows = ([markdown(cell) for cell in row] for row in (table.heads, *table.rows))
    for row, column in table.bold:
        rows[row][column] = f"**{rows[row][column]}**"
    lines = [f"| {' | '.join(row)} |" for row in (heads, marks, *rows)]
    return "\n".join([*([markdown(table.caption), ""] if table.caption else []), *lines, ""])


def to_csv(table: Table) -> str:
    """One line of heads, one for each row; the caption is left to the other forms."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([table.heads, *table.rows])
    return text.getvalue()


def to_latex(table: Table) -> str:
    """For \\usepackage{booktabs}: a table with its caption, or a tabular where there is none."""
    cells = [list(map(_latex, row)) for row in (table.heads, *table.rows)]
    for number, column in table.bold:
        cells[number + 1][column] = _latex_bold(table.rows[number][column])
    heads, *rows = (" & ".join(row) + r" \\" for row in cells)
    lines = [rf"\begin{{tabular}}{{{table.alignment}}}", r"\toprule", heads, r"\midrule"]
    for number, row in enumerate(rows):
        lines += [r"\midrule", row] if number in table.rules else [row]
    lines += [r"\bottomrule", r"\end{tabular}"]
    if table.caption:
        caption = rf"\caption{{{_latex(table.caption)}}}"
        lines = [r"\begin{table}", caption, *lines, r"\end{table}"]
    return "\n".join([*lines, ""])


def _latex(cell: str) -> str:
    """A number with a sign or a deviation is set as a formula."""
    if _NUMBER.fullmatch(cell):
        return "$" + re.sub(" ?± ?", r" \\pm ", cell) + "$"
    return "".join(_LATEX.get(character, character) for character in latex(cell))


def _latex_bold(cell: str) -> str:
    """A formula needs a sign of its own; of a mean with a deviation, the mean is enough."""
    number, sign, deviation = cell.partition("±")
    if _NUMBER.fullmatch(cell):
        rest = rf" \pm {deviation.strip()}" if sign else ""
        return rf"$\mathbf{{{number.strip()}}}{rest}$"
    return rf"\textbf{{{_latex(cell)}}}"


def to_rich(table: Table, *, lines: bool = True, widest: int | None = None) -> RichTable:
    """For a terminal: numbers are never broken, words are folded at `widest` letters.

    Without `lines` the first column is bold and no line is drawn below the heads.
    """
    shown = RichTable(
        box=box.SIMPLE_HEAD if lines else None,
        padding=(0, 1, 0, 0) if lines else (0, 1),
        pad_edge=False,
        caption=Text(printable(table.caption)) if table.caption else None,
        caption_justify="left",
    )
    for number, (head, side) in enumerate(zip(table.heads, table.alignment, strict=True)):
        if side == "r":
            shown.add_column(head, justify="right", no_wrap=True)
        elif lines or number:
            shown.add_column(head, overflow="fold", max_width=widest)
        else:
            shown.add_column(head, style="bold", no_wrap=True)
    for number, row in enumerate(table.rows):
        if number in table.rules:
            shown.add_section()
        styles = ("bold" if (number, column) in table.bold else "" for column in range(len(row)))
        shown.add_row(*(Text(printable(cell), how) for cell, how in zip(row, styles, strict=True)))
    return shown
