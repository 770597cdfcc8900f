"""Many runs -> one table: for the terminal, for Markdown, for LaTeX and for other programs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from rich.console import Group, RenderableType
from rich.table import Table as RichTable

from flr.core.errors import DataError
from flr.report import table as tables
from flr.report.formatting import markdown, percent
from flr.report.paired_runs import (
    CHOSEN,
    ComparisonTable,
    Estimate,
    Row,
    RunGroup,
    grouped,
    tabulate,
)
from flr.report.run_records import RunRecord, read_run
from flr.report.table import Table

_COLUMNS = {  # by the name of an estimate
    "best": "accuracy: best",
    "last": "last",
    "last10": "last 10",
    "server": "memorized: server",
    "server_last10": "last 10",
    "client": "client",
    "client_last10": "last 10",
    "difference": "difference (last 10)",
}
_NARROW = {
    "best": "accuracy\nbest",
    "last": "accuracy\nlast",
    "last10": "accuracy\nlast 10",
    "server_last10": "memo.\nserver",
    "client_last10": "memo.\nclient",
    "difference": "differ-\nence",
}
_CAPTION = (
    "All in %. ±: half-width of the 95 % t-interval, from two runs on. Memorized: wrong labels "
    "that the model repeats, {when}. Difference: accuracy of the last 10 rounds minus the "
    "first method's, paired."
)
_WHEN = "last round and mean of the last 10"
_WHEN_NARROW = "mean of the last 10 rounds"
_MEASURES = "{first}eans of the last 10 rounds."
_CHOSEN = " Chosen: accuracy of the round that labels choose which no site trains on."
_GROUPS = "Runs whose configs differ in more than seed and method are in separate groups (#): "


class HasFolder(Protocol):
    """A run that knows its folder."""

    @property
    def folder(self) -> Path:
        """Where `flr.run` has put it."""


def compare(runs: Iterable[Path | str | HasFolder]) -> ComparisonTable:
    """Compares the methods of finished runs; the first one of a group is its reference.

    Args:
        runs: Run folders, or what `flr.run` has returned. One that is given again counts once, so
            that `flr compare runs/fedavg-* runs/*` puts FedAvg first.

    Returns:
        Means with 95 % intervals and paired differences; `.frame()` gives them to pandas.

    Raises:
        DataError: A folder holds no finished run, or methods were not run on the same scenarios.

    Example:
        >>> flr.compare(["runs/flr-1"]).frame()[["method", "n"]].values.tolist()
        [['flr', 1]]
    """
    return tabulate(records(runs))


def groups(runs: Iterable[Path | str | HasFolder]) -> list[RunGroup]:
    """The same runs without a table: by what they differ in, and by method."""
    return grouped(records(runs))


def records(runs: Iterable[Path | str | HasFolder]) -> list[RunRecord]:
    """Every run once, called as it was first."""
    folders = [Path(getattr(run, "folder", run)) for run in runs]  # type: ignore[arg-type]
    if not folders:
        raise DataError("Expected at least one run folder; got none. Use: flr compare RUN RUN ...")
    once: dict[Path, Path] = {}
    for folder in folders:
        once.setdefault(folder.resolve(), folder)
    return [read_run(folder) for folder in once.values()]


def to_rich(found: ComparisonTable) -> RenderableType:
    """For a terminal of 80 columns: of memorization means without intervals.

    The other forms have the last round's and all intervals. Metrics have a table of their own.
    """
    widest = 22 if len(found.groups) == 1 else 15
    shown = [tables.to_rich(_table(found, narrow=True), widest=widest)]
    if _measures(found):
        shown.append(tables.to_rich(_measure_table(found), widest=widest))
    return Group(*shown)


def to_markdown(found: ComparisonTable) -> str:
    """A pipe table with its caption below."""
    return f"{tables.to_markdown(_table(found))}\n{markdown(_caption(found))}\n"


def to_latex(found: ComparisonTable) -> str:
    """A tabular for \\usepackage{booktabs} below its caption, which is a comment."""
    comment = "".join(f"% {line}\n" for line in _caption(found).splitlines())
    return comment + tables.to_latex(_table(found))


def to_csv(found: ComparisonTable) -> str:
    """Fractions in full precision; an empty field is a value that does not exist."""
    names = [*_COLUMNS, *_measures(found)]
    heads = [f"{name}{part}" for name in names for part in ("", "_half")]
    rows = []
    for row in found.rows:
        values = [_estimate(row, name) or Estimate(None, None, 0) for name in names]
        exact = ["" if v is None else str(v) for each in values for v in (each.mean, each.half)]
        rows.append([str(row.group), row.method, str(row.n), *exact])
    return tables.to_csv(Table(["group", "method", "n", *heads], rows))


def demo_table(summaries: Mapping[str, dict[str, Any]]) -> RichTable:
    """One run of each method, for someone who sees such numbers for the first time."""
    accuracies = ("accuracy\nbest", "accuracy\nlast", "accuracy\nlast 10")
    heads = ("method", *accuracies, "memorized\nat server", "memorized\nat clients")
    rows = []
    for found in summaries.values():
        numbers = [found["accuracy"][key] for key in ("best", "last", "last10")]
        sides = (found["memorization"][side] for side in ("server", "client"))
        numbers += [side["noisy_memorized"] for side in sides]
        rows.append([found["method"], *map(percent, numbers)])
    return tables.to_rich(Table(heads, rows))


def _table(found: ComparisonTable, *, narrow: bool = False) -> Table:
    columns = _NARROW if narrow else {**_COLUMNS, **{name: name for name in _measures(found)}}
    return _rows(found, columns, _caption(found, narrow=True) if narrow else "", narrow=narrow)


def _measure_table(found: ComparisonTable) -> Table:
    """Heads are broken, so that five of them fit a terminal."""
    columns = {name: name.replace("-", "-\n") for name in _measures(found)}
    return _rows(found, columns, _about_measures(found, "M"), narrow=True)


def _about_measures(found: ComparisonTable, first: str) -> str:
    """Begins with a sentence or within one."""
    return _MEASURES.format(first=first) + (_CHOSEN if CHOSEN in _measures(found) else "")


def _rows(
    found: ComparisonTable, columns: Mapping[str, str], caption: str, *, narrow: bool
) -> Table:
    several = len(found.groups) > 1
    group = ["#" if narrow else "group"] if several else []
    rows, groups = [], [row.group for row in found.rows]
    for row in found.rows:
        numbers = [_number(_estimate(row, name), name, narrow) for name in columns]
        rows.append([*([str(row.group)] if several else []), row.method, str(row.n), *numbers])
    return Table(
        heads=[*group, "method", "n", *columns.values()],
        rows=rows,
        caption=caption,
        align="rl" if several else "l",
        rules=[i for i in range(1, len(groups)) if groups[i] != groups[i - 1]],
    )


def _measures(found: ComparisonTable) -> list[str]:
    """What some of the runs have besides, in order of appearance."""
    return list(dict.fromkeys(name for row in found.rows for name in row.measures))


def _estimate(row: Row, name: str) -> Estimate | None:
    found: Estimate | None = getattr(row, name) if name in _COLUMNS else row.measures.get(name)
    return found


def _number(value: Estimate | None, name: str, narrow: bool) -> str:
    if value is None or value.mean is None:
        return "–"
    text = f"{100 * value.mean:{'+' if name == 'difference' else ''}.1f}"
    if value.half is None or (narrow and name.endswith("_last10")):
        return text
    return text + ("±" if narrow else " ± ") + f"{100 * value.half:.1f}"


def _caption(found: ComparisonTable, *, narrow: bool = False) -> str:
    caption = _CAPTION.format(when=_WHEN_NARROW if narrow else _WHEN)
    if not narrow and _measures(found):
        caption = f"{caption} Further columns: {_about_measures(found, 'm')}"
    if len(found.groups) == 1:
        return caption
    each = "; ".join(f"{i} as in {name}" for i, name in enumerate(found.groups, start=1))
    return f"{caption}\n{_GROUPS}{each}."
