"""`flr bench`: how fast this engine is here, beside a bare loop and other engines."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from flr.cli.screen import console

_QUICK = (3, 1)  # rounds and repeats


def bench(
    names: Annotated[
        list[str] | None, typer.Argument(help="Workloads; --list names them.", metavar="NAME...")
    ] = None,
    listing: Annotated[bool, typer.Option("--list", help="Name all workloads.")] = False,
    repeats: Annotated[int, typer.Option(min=1, help="Of every engine, in turn.")] = 5,
    rounds: Annotated[
        int | None, typer.Option(min=2, help="Of every run (default: the workload's own).")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of data, clients and weights.")] = 1,
    quick: Annotated[
        bool, typer.Option("--quick", help="3 rounds, once: to see it work, not to believe it.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the results as JSON and Markdown.")
    ] = None,
) -> None:
    """Compare speed and memory with a bare loop of the same steps and with other engines."""
    from flr.bench import bench as benches
    from flr.bench import table, workloads

    if listing:
        show_list()
        return
    if not names:
        raise typer.BadParameter("give the name of a workload, or --list")
    if quick:
        rounds, repeats = _QUICK
    for workload in [workloads.get(name) for name in names]:
        setting = benches.Setting(
            rounds or workload.rounds, repeats, seed, shlex.join(["flr", *sys.argv[1:]])
        )
        result = benches.run(workload, setting, say)
        show(result)
        if out is not None:
            for path in table.save(out, result):
                console.print(str(path), soft_wrap=True, markup=False)


def say(words: str) -> None:
    """What is running now."""
    console.print(words, style="dim", soft_wrap=True, markup=False)


def show_list() -> None:
    """All workloads."""
    from flr.bench.workloads import WORKLOADS

    table = Table(box=None, pad_edge=False)
    table.add_column("name", style="bold", no_wrap=True)
    table.add_column("what is trained")
    table.add_column("rounds", justify="right")
    for workload in WORKLOADS.values():
        table.add_row(workload.name, workload.what, str(workload.rounds))
    console.print(table)


def show(result: dict[str, Any]) -> None:
    """The table of one workload, and what to think of it."""
    from flr.bench import table

    console.print(f"{result['workload']}: {result['what']}", style="bold", markup=False)
    shown = Table(box=None, pad_edge=False)
    columns = table.SHORT[result["kind"]]
    for place, (head, _) in enumerate(columns):
        shown.add_column(head, justify="right" if place else "left", no_wrap=not place)
    for row in result["rows"]:
        shown.add_row(*(cell(row) for _, cell in columns))
    console.print(shown)
    for note in table.notes(result):
        console.print(note, markup=False)
