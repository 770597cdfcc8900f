"""`flr sweep`: many runs from one file, and what they say together."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flr.cli import portable
from flr.cli.terminal import console, say
from flr.core.plain_text import counted
from flr.report import table
from flr.report.formatting import percent
from flr.simulation.run import OnRound
from flr.study import api

if TYPE_CHECKING:
    from flr.study.experiment import Experiment
    from flr.study.runner import Runner

WIDEST = 22  # letters of a method's name on a terminal


def sweep(
    study: Annotated[Path, typer.Argument(help="What is varied, as TOML.", metavar="STUDY")],
    plan: Annotated[bool, typer.Option("--plan", help="Only say runs and hours.")] = False,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Runs at a time (default: one for each core).")
    ] = None,
    index: Annotated[
        int | None,
        typer.Option(min=0, help="Of a job array: this job's number, from 0; goes with --of."),
    ] = None,
    of: Annotated[int | None, typer.Option(min=1, help="How many jobs the array has.")] = None,
    out: Annotated[Path, typer.Option(help="Folder of runs, tables and pages.")] = api.OUT,
    train: Annotated[
        bool, typer.Option("--train/--no-train", help="Or show what there is, training nothing.")
    ] = True,
) -> None:
    """Train all runs of STUDY that are not there yet; write tables, pictures and one page."""
    from flr.study import page, queue, study_file

    if (index is None) != (of is None):
        raise typer.BadParameter("--index and --of go together")
    share = None if index is None or of is None else (index, of)
    if share is not None and share[0] >= share[1]:
        raise typer.BadParameter(
            f"--index is from 0 to {share[1] - 1} with --of {share[1]}, got {share[0]}; "
            f"write sbatch --array=0-{share[1] - 1}"
        )
    experiment = study_file.load(study)
    runner = api.make_runner(experiment, out, jobs, watch=said, share=share)
    if plan:
        show_plan(experiment, runner, api.lanes(jobs))
        return
    failed: queue.Failures = {}
    if train:
        if any(c.bits == "portable" for c in runner.plan(experiment, experiment.seeds).values()):
            portable.restart()
        work = [(experiment, experiment.seeds)]
        failed = queue.train_in_lanes(runner, work, (), api.lanes(jobs), apart=True)
    results = runner.gather(experiment)
    written = page.write(results, failed, shlex.join(["flr", *sys.argv[1:]]))
    if results.cells:
        from flr.study import tables

        console.print(table.to_rich(tables.scores(results), widest=WIDEST))
    there, all_of_them = len(results.cells), len(results.configs)
    if there < all_of_them:
        say(f"{there} of {counted(all_of_them, 'run')} finished.")
    say(f"Page: {written.folder / page.INDEX}")
    queue.require_all(failed)


@contextmanager
def said(label: str, _rounds: int) -> Iterator[OnRound | None]:
    """One run of several at a time: bars would overwrite each other."""
    began, measured = time.monotonic(), [""]

    def on_round(line: dict[str, Any]) -> None:
        if line.get("accuracy") is not None:
            measured[0] = f", accuracy {percent(line['accuracy'])}"

    yield on_round
    say(f"{label}: {time.monotonic() - began:.0f} s{measured[0]}")


def show_plan(experiment: Experiment, runner: Runner, jobs: int) -> None:
    """What would be run, and for how long."""
    from flr.study import estimate_time

    todo = runner.missing(experiment, experiment.seeds)
    configs = runner.plan(experiment, experiment.seeds)
    console.print(experiment.title, style="bold", soft_wrap=True)
    for setting in experiment.settings.values():
        rows = ", ".join(row.title for row in experiment.rows_in(setting.key))
        say(f"  {setting.title}: {rows}")
    runner.check_data(experiment, [run.config for run in todo.values()])
    one_by_one = estimate_time.hours(
        [run.config for run in todo.values()], runner.folder, runner.workers, runner.sizes
    )
    together = min(jobs, max(1, len(todo)))
    seeds = ", ".join(map(str, experiment.seeds))
    whose = "" if runner.share is None else " of this job of the array"
    say(
        f"{counted(len(configs), 'run')} with seeds {seeds}; {len(todo)}{whose} to be trained, "
        f"{together} at a time with {counted(runner.workers, 'worker')} each: "
        f"about {_time(one_by_one / together)}."
    )


def _time(hours: float) -> str:
    return f"{hours:.1f} hours" if hours >= 1 else counted(max(1, round(60 * hours)), "minute")
