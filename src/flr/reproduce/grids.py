"""A table as text, and its three written forms."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path

from flr.arrays import write_atomically
from flr.report.words import latex, markdown


@dataclass(frozen=True)
class Grid:
    """Heads and rows of cells; the first `words` columns are words, the others numbers."""

    caption: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: int = 1


def save(grid: Grid, stem: Path) -> list[Path]:
    """Writes stem.md, stem.csv and stem.tex."""
    forms = {".md": to_markdown, ".csv": to_csv, ".tex": to_latex}
    for suffix, form in forms.items():
        write_atomically(stem.with_suffix(suffix), form(grid))
    return [stem.with_suffix(suffix) for suffix in forms]


def to_markdown(grid: Grid) -> str:
    """A pipe table below its caption."""
    marks = [":--" if at < grid.words else "--:" for at in range(len(grid.heads))]
    body = [[markdown(cell) for cell in row] for row in (grid.heads, *grid.rows)]
    lines = [f"| {' | '.join(row)} |" for row in (body[0], marks, *body[1:])]
    return "\n".join([markdown(grid.caption), "", *lines, ""])


def to_csv(grid: Grid) -> str:
    """One line of heads, one for each row; the caption is left to the other forms."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([grid.heads, *grid.rows])
    return text.getvalue()


def to_latex(grid: Grid) -> str:
    """A table for \\usepackage{booktabs}."""
    columns = "l" * grid.words + "r" * (len(grid.heads) - grid.words)
    heads, *rows = (" & ".join(map(_latex, row)) + r" \\" for row in (grid.heads, *grid.rows))
    lines = [r"\begin{table}", rf"\caption{{{_latex(grid.caption)}}}"]
    lines += [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", heads, r"\midrule", *rows]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}", ""])


def _latex(cell: str) -> str:
    signs = {"±": r"$\pm$", "–": "--", "✓": r"\checkmark", "✗": r"$\times$", "○": r"$\circ$"}
    signs |= {
        "△": r"$\triangle$",
        "ρ": r"$\rho$",
        "τ": r"$\tau$",
        "α": r"$\alpha$",
        "β": r"$\beta$",
        "γ": r"$\gamma$",
    }
    text = latex(cell)
    for sign, command in signs.items():
        text = text.replace(sign, command)
    return text
