"""`flr reproduce`: a table or figure of the paper by one command."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flr.cli import portable
from flr.cli.progress import RunProgress
from flr.cli.terminal import console
from flr.config.overrides import apply
from flr.core import registry
from flr.core.errors import ConfigError
from flr.report.table import Table, to_rich
from flr.simulation.run import OnRound

if TYPE_CHECKING:
    from flr.config import Config
    from flr.paper.experiment import Experiment
    from flr.paper.queue import Queue
    from flr.paper.runner import ExperimentResults, Runner


class Scale(StrEnum):
    """How large the runs are."""

    LAPTOP = "laptop"
    FEATURES = "features"
    MIDDLE = "middle"
    PAPER = "paper"


ALL = "all"  # as NAME: every table and figure that is trained


def reproduce(
    name: Annotated[
        str | None,
        typer.Argument(help="A table or figure, or all; --list names them.", metavar="NAME"),
    ] = None,
    listing: Annotated[bool, typer.Option("--list", help="Name all tables and figures.")] = False,
    scale: Annotated[
        Scale,
        typer.Option(
            help="laptop: real data, small; features: the paper's federation on features of a "
            "frozen network; middle: from scratch, narrow; paper: as published, needs a GPU."
        ),
    ] = Scale.LAPTOP,
    seeds: Annotated[
        str | None, typer.Option(help="For instance 1,2,3 (default: three, or the paper's five).")
    ] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Only say what would be run.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Few rounds, to see it work.")] = False,
    only: Annotated[
        str | None, typer.Option(help="Train these rows or columns alone, for instance flr,fedavg.")
    ] = None,
    train: Annotated[
        bool, typer.Option("--train/--no-train", help="Or show what there is, training nothing.")
    ] = True,
    pages: Annotated[
        bool, typer.Option("--pages", help="Write all tables and the pages over them again.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder of cells, tables and pictures.")] = Path(
        "reproduction"
    ),
    workers: Annotated[int, typer.Option(min=1, help="Worker processes of a run.")] = 2,
    lanes: Annotated[int, typer.Option(min=1, help="Runs at a time, of all that is asked.")] = 1,
    device: Annotated[str, typer.Option(help="cpu, cuda, mps, or auto.")] = "auto",
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a setting of every run."),
    ] = None,
) -> None:
    """One table or figure of the paper: trains what is missing, then writes it."""
    from flr.paper import experiment, queue
    from flr.paper.runner import Runner

    if listing:
        show_list()
        return
    if pages:
        if name is not None:
            raise typer.BadParameter("--pages writes all of them; leave NAME out")
        if not (out / "cells").is_dir():
            raise typer.BadParameter(f"--pages needs a folder with cells; {out} has none")
        write_pages(out)
        return
    if name is None:
        raise typer.BadParameter("give the name of a table or figure, --list or --pages")
    if only and not train:
        raise typer.BadParameter("--only says what to train; leave it out with --no-train")
    if quick and scale in (Scale.PAPER, Scale.MIDDLE):
        raise typer.BadParameter(
            "--quick is for --scale laptop or features; others cannot be short"
        )
    found = queued(name, scale, quick, seeds)
    above = experiment.merge({"train": {"device": device}}, tree_of(changes or []))
    runner = Runner(out, above, workers, watched if lanes == 1 else said)
    parts = only.split(",") if only else ()
    if plan:
        show_plan(found, runner, parts)
        return
    if train:
        portable.restart()
    if train and (name == ALL or lanes > 1):
        queue.train_in_lanes(runner, found, parts, lanes)
        train = False
    for each, chosen in {each.name: (each, chosen) for each, chosen in found}.values():
        make(runner.reproduce(each, chosen, parts) if train else runner.gather(each, chosen))


def queued(name: str, scale: Scale, quick: bool, seeds: str | None) -> Queue:
    """What a command is about, each with its seeds; of all, few seeds everywhere come first."""
    from flr.paper import experiment

    if name == ALL:
        found = list(experiment.queue(scale.value, quick))
        if seeds is not None:
            different = {each.name: each for each, _ in found}
            found = [(each, numbers(seeds)) for each in different.values()]
        return found
    if not any(known == name or known.startswith(f"{name}-") for known in experiment.names()):
        raise typer.BadParameter(registry.unknown("NAME", name, experiment.names()))
    each_one = experiment.load_all(name, scale.value, quick)
    return [(each, each.seeds if seeds is None else numbers(seeds)) for each in each_one]


def make(results: ExperimentResults) -> None:
    """Writes everything and says where it is."""
    from flr.paper.pages import experiment

    written = experiment.write(results, shlex.join(["flr", *sys.argv[1:]]))
    for place in written.compared:
        told = f"{experiment.words(place)}: {place.part} ({place.where})"
        console.print(told, soft_wrap=True)
    for path in written.files:
        console.print(str(path), soft_wrap=True)


def write_pages(out: Path) -> None:
    """Tables and pages of all that is there; pictures stay: some need the data, or models."""
    from flr.paper import pages

    for path in pages.write_all(out):
        console.print(str(path), soft_wrap=True)


@contextmanager
def watched(label: str, rounds: int) -> Iterator[OnRound | None]:
    """The progress of one run."""
    with RunProgress(label, rounds, console) as progress:
        yield progress


@contextmanager
def said(label: str, _rounds: int) -> Iterator[OnRound | None]:
    """One run of several at a time: its name, for bars would overwrite each other."""
    console.print(label, soft_wrap=True, markup=False)
    yield None


def numbers(text: str) -> tuple[int, ...]:
    """Seeds as they are written on the command line."""
    try:
        found = tuple(int(part) for part in text.split(","))
    except ValueError:
        found = ()
    if not found or min(found) < 0 or len(set(found)) < len(found):
        raise ConfigError(
            f"Expected different numbers from 0 with commas between them as --seeds, got {text!r}. "
            "Write for instance --seeds 1,2,3."
        )
    return found


def tree_of(changes: list[str]) -> dict[str, Any]:
    """Settings of the command line as a config would hold them."""
    tree: dict[str, Any] = {}
    problems = apply(tree, {}, changes)
    if problems:
        raise ConfigError(" ".join(problem.text for problem in problems))
    for name in ("seed", "workers"):
        if name in tree:
            option = f"--{name}s" if name == "seed" else f"--{name}"
            raise ConfigError(f"Expected {option} for the {name}, got --set {name}. Use {option}.")
    return tree


def show_list() -> None:
    """All tables and figures, each with its runs at its smallest scale."""
    from flr.paper import experiment

    rows = []
    for name in experiment.names():
        found = experiment.load(name, experiment.scales(name)[0])
        rows.append((name, found.title, str(len(list(found.places((1,)))))))
    heads = ("name", "what it shows", "runs for\na seed")
    console.print(to_rich(Table(heads, rows, align="ll"), lines=False))


def show_plan(found: Queue, runner: Runner, only: Sequence[str]) -> None:
    """Runs and hours; what several tables show is counted once."""
    from flr.paper import estimate_time, results

    every: set[str] = set()
    todo: dict[str, Config] = {}
    left: set[str] = set()
    for number, (each, seeds) in enumerate(found, start=1):
        if number == len({e.name for e, _ in found[:number]}):  # later ones have more seeds only
            show_parts(each)
        every |= {results.hash_of(config) for config in runner.plan(each, seeds).values()}
        missing = runner.missing(each, seeds)
        left |= missing.keys()
        new = runner.missing(each, seeds, only) if only else missing
        fresh = {name: run.config for name, run in new.items() if name not in todo}
        todo |= fresh
        if len(found) > 1:
            several = f"  {len(fresh)} runs more with seeds {', '.join(map(str, seeds))}"
            console.print(f"{several}: {each.name}", soft_wrap=True)
    hours = estimate_time.hours(todo.values(), runner.folder, runner.workers)
    rest = f"{len(todo)} of the rest" if only else "the rest"
    numbered = sorted({seed for _, chosen in found for seed in chosen})
    console.print(
        f"{len(every | left)} runs with seeds {', '.join(map(str, numbered))}, "
        f"{len(every - left)} finished; about {hours:.1f} hours for {rest} with "
        f"{runner.workers} workers ({os.cpu_count()} cores here).",
        soft_wrap=True,
    )
    console.print(
        "Hours are those of like runs, wherever they were timed, else of training steps timed now: "
        "methods with extra passes take up to three times as long.",
        style="dim",
        soft_wrap=True,
    )


def show_parts(found: Experiment) -> None:
    """The columns of a table with their rows."""
    console.print(f"{found.name} ({found.scale}): {found.title}", style="bold", soft_wrap=True)
    for setting in found.settings.values():
        rows = ", ".join(row.title for row in found.rows_in(setting.key))
        console.print(f"  {setting.title}: {rows or 'nothing is trained'}", soft_wrap=True)
