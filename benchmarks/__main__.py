"""`python -m benchmarks`: how fast the engine is here, beside a plain loop and other engines."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from benchmarks import run, table, workloads
from flr.cli.main import fail
from flr.cli.terminal import console
from flr.core.errors import FlrError

_QUICK = (3, 1)  # rounds and repeats


def benchmark(
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
    if listing:
        show_list()
        return
    if not names:
        raise typer.BadParameter("give the name of a workload, or --list")
    if quick:
        rounds, repeats = _QUICK
    command = shlex.join(["python", "-m", "benchmarks", *sys.argv[1:]])
    for workload in [workloads.get(name) for name in names]:
        setting = run.Setting(rounds or workload.rounds, repeats, seed, command)
        result = run.run(workload, setting, say)
        show(result)
        if out is not None:
            for path in table.save(out, result):
                console.print(str(path), soft_wrap=True, markup=False)


def say(words: str) -> None:
    """What is running now."""
    console.print(words, style="dim", soft_wrap=True, markup=False)


def show_list() -> None:
    """All workloads."""
    shown = Table(box=None, pad_edge=False)
    shown.add_column("name", style="bold", no_wrap=True)
    shown.add_column("what is trained")
    shown.add_column("rounds", justify="right")
    for workload in workloads.WORKLOADS.values():
        shown.add_row(workload.name, workload.what, str(workload.rounds))
    console.print(shown)


def show(result: dict[str, Any]) -> None:
    """The table of one workload, and what to think of it."""
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


def main() -> None:
    """A user's mistake becomes one message and an exit code."""
    try:
        typer.run(benchmark)
    except FlrError as error:
        fail(str(error), error.exit_code)


if __name__ == "__main__":
    main()
