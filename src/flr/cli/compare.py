"""`flr compare`: one table of many runs, in the form that is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flr.cli.terminal import console, put

if TYPE_CHECKING:
    from flr.report.paired_runs import RunGroup


def compare(
    runs: Annotated[list[Path], typer.Argument(help="Run folders.", metavar="RUN...")],
    latex: Annotated[bool, typer.Option("--latex", help="Print LaTeX.")] = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown.")] = False,
    columns: Annotated[
        str | None,
        typer.Option(help="Numbers of summary.json, for instance last10,client,seconds."),
    ] = None,
    std: Annotated[
        bool, typer.Option("--std", help="Standard deviations in place of intervals.")
    ] = False,
    figure: Annotated[
        Path | None, typer.Option(help="Also draw learning curves: a .png or .pdf file.")
    ] = None,
) -> None:
    """One table of many runs: means and 95 % intervals over the scenarios they share."""
    from flr.report import compare as comparing

    if latex + csv + markdown > 1:
        raise typer.BadParameter("choose one of --latex, --csv and --markdown")
    if figure is not None or columns is not None or std:
        from flr.report import comparison_figure

        groups = comparing.groups(runs)
        if figure is not None:
            comparison_figure.write(groups, figure)
        if columns is not None or std:
            show_columns(groups, columns, std, latex=latex, csv=csv, markdown=markdown)
            return
    found = comparing.compare(runs)
    if latex:
        put(comparing.to_latex(found))
    elif csv:
        put(comparing.to_csv(found))
    elif markdown:
        put(comparing.to_markdown(found))
    else:
        console.print(comparing.to_rich(found))


def show_columns(
    groups: Sequence[RunGroup],
    columns: str | None,
    std: bool,
    *,
    latex: bool,
    csv: bool,
    markdown: bool,
) -> None:
    """A table of the numbers that were asked for, in one of the forms."""
    from flr.report import columns as choosing
    from flr.report import table

    names = choosing.USUAL if columns is None else columns.split(",")
    if csv:
        put(choosing.to_csv(groups, names, std=std))
        return
    found = choosing.table(groups, names, std=std)
    if latex:
        put(table.to_latex(found))
    elif markdown:
        put(table.to_markdown(found))
    else:
        console.print(table.to_rich(found, widest=22))
