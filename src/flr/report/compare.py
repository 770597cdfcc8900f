"""Many runs -> one table: for the terminal, for Markdown, for LaTeX and for other programs."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table as RichTable
from rich.text import Text

from flr.errors import DataError
from flr.report.pairing import Estimate, Row, Table, read_run, tabulate
from flr.report.words import latex, markdown, percent

_ESTIMATES = ("best", "last", "last10", "server", "client", "difference")


def compare(folders: Sequence[Path]) -> Table:
    """Reads run folders and compares their methods; the first one of a group is its reference.

    A folder given again counts once, so that `flr compare runs/fedavg-* runs/*` puts FedAvg first.
    """
    if not folders:
        raise DataError("Expected at least one run folder; got none. Use: flr compare RUN RUN ...")
    once: dict[Path, Path] = {}
    for folder in folders:
        once.setdefault(folder.resolve(), folder)
    return tabulate([read_run(folder) for folder in once.values()])


def to_rich(table: Table) -> RichTable:
    """For a terminal of 80 columns: memorization without intervals, which the other forms have."""
    several = len(table.groups) > 1
    shown = _rich()
    shown.caption = Text(_caption(table))
    if several:
        shown.add_column("#", justify="right")
    shown.add_column("method", overflow="fold", max_width=22 if not several else 15)
    shown.add_column("n", justify="right")
    for head in ("best", "last", "last 10"):
        shown.add_column(f"accuracy\n{head}", justify="right", no_wrap=True)
    for head in ("server", "client"):
        shown.add_column(f"memo.\n{head}", justify="right", no_wrap=True)
    shown.add_column("differ-\nence", justify="right", no_wrap=True)
    previous = None
    for row in table.rows:
        if previous is not None and row.group != previous:
            shown.add_section()
        previous = row.group
        group = [str(row.group)] if several else []
        shown.add_row(
            *group,
            Text(row.method),
            str(row.n),
            *(_plain(value) for value in (row.best, row.last, row.last10)),
            *(_plain(Estimate(value.mean, None, value.n)) for value in (row.server, row.client)),
            _plain(row.difference, sign=True),
        )
    return shown


def to_markdown(table: Table) -> str:
    """A pipe table with its caption below."""
    heads = [*_group_head(table), "method", "n", "accuracy: best", "last", "last 10"]
    heads += ["memorized: server", "client", "difference (last 10)"]
    marks = [":--" if head == "method" else "--:" for head in heads]
    body = [
        [*_group(table, row), markdown(row.method), str(row.n), *_cells(row)] for row in table.rows
    ]
    text = "\n".join(f"| {' | '.join(cells)} |" for cells in (heads, marks, *body))
    return f"{text}\n\n{markdown(_caption(table))}\n"


def to_latex(table: Table) -> str:
    """A tabular for \\usepackage{booktabs}, with every name escaped."""
    heads = [*_group_head(table), "method", "$n$", "best", "last", "last 10", "server", "client"]
    heads += ["difference"]
    shape = "".join("l" if head == "method" else "r" for head in heads)
    out = [f"% {line}" for line in _caption(table).splitlines()]
    out += [rf"\begin{{tabular}}{{{shape}}}", r"\toprule", " & ".join(heads) + r" \\", r"\midrule"]
    previous = table.rows[0].group
    for row in table.rows:
        if row.group != previous:
            out.append(r"\midrule")
        previous = row.group
        values = [_latex_number(cell) for cell in _numbers(row)]
        out.append(
            " & ".join([*_group(table, row), latex(row.method), str(row.n), *values]) + r" \\"
        )
    return "\n".join([*out, r"\bottomrule", r"\end{tabular}"]) + "\n"


def to_csv(table: Table) -> str:
    """Fractions in full precision; an empty field is a value that does not exist."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    names = [f"{name}{part}" for name in _ESTIMATES for part in ("", "_half")]
    writer.writerow(["group", "method", "n", *names])
    for row in table.rows:
        values: list[float | None] = []
        for name in _ESTIMATES:
            value: Estimate | None = getattr(row, name)
            values += [value.mean, value.half] if value is not None else [None, None]
        writer.writerow([row.group, row.method, row.n, *values])
    return buffer.getvalue()


def demo_table(summaries: Mapping[str, dict[str, Any]]) -> RichTable:
    """One run of each method, for someone who sees such numbers for the first time."""
    shown = _rich()
    shown.add_column("method")
    for head in ("accuracy\nbest", "accuracy\nlast", "accuracy\nlast 10"):
        shown.add_column(head, justify="right", no_wrap=True)
    for head in ("memorized\nat server", "memorized\nat clients"):
        shown.add_column(head, justify="right", no_wrap=True)
    for found in summaries.values():
        accuracy, memorized = found["accuracy"], found["memorization"]
        shown.add_row(
            Text(found["method"]),
            *(percent(accuracy[key]) for key in ("best", "last", "last10")),
            *(percent(memorized[side]["noisy_memorized"]) for side in ("server", "client")),
        )
    return shown


def _rich() -> RichTable:
    return RichTable(
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
        caption_justify="left",
    )


def _caption(table: Table) -> str:
    text = (
        "All in %. ±: half-width of the 95 % t-interval, from two runs on. Memorized: wrong labels "
        "that the model repeats, last round. Difference: accuracy of the last 10 rounds minus the "
        "first method's, paired."
    )
    if len(table.groups) > 1:
        text += (
            "\nRuns whose configs differ in more than seed and method are in separate groups (#): "
        )
        text += "; ".join(f"{i} as in {name}" for i, name in enumerate(table.groups, start=1)) + "."
    return text


def _plain(value: Estimate | None, *, sign: bool = False) -> str:
    return _number(value, sign=sign) or "–"


def _number(value: Estimate | None, *, sign: bool = False) -> str:
    if value is None or value.mean is None:
        return ""
    half = "" if value.half is None else f"±{100 * value.half:.1f}"
    return f"{100 * value.mean:{'+' if sign else ''}.1f}{half}"


def _numbers(row: Row) -> list[str]:
    return [_number(getattr(row, name), sign=name == "difference") for name in _ESTIMATES]


def _cells(row: Row) -> list[str]:
    return [cell.replace("±", " ± ") or "–" for cell in _numbers(row)]


def _group_head(table: Table) -> list[str]:
    return ["group"] if len(table.groups) > 1 else []


def _group(table: Table, row: Row) -> list[str]:
    return [str(row.group)] if len(table.groups) > 1 else []


def _latex_number(cell: str) -> str:
    return "$" + cell.replace("±", r" \pm ") + "$" if cell else "--"
