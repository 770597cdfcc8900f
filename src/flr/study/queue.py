"""Many tables in one go: in their order, in several lanes, what they share trained once.

A lane is a process that takes the next run which no other lane is at. A stopped queue goes on where
it was, for finished cells are files and half a run is resumed.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from types import FrameType

from flr.core.errors import FlrError, RunError
from flr.study.experiment import Experiment
from flr.study.runner import Runner

Queue = Sequence[tuple[Experiment, tuple[int, ...]]]  # each with the seeds it is trained with


def train(runner: Runner, queue: Queue, only: Sequence[str] = ()) -> None:
    """Trains all that is missing; a run that fails is named at the end and stops no other."""
    failed: dict[str, str] = {}
    for patience in (0, -1):  # first what nobody else is at; then what is left, once it is free
        for experiment, seeds in queue:
            for name, run in runner.missing(experiment, seeds, only).items():
                if name in failed:
                    continue
                try:
                    runner.finish(experiment, name, run, patience)
                except FlrError as error:
                    failed[name] = f"{experiment.name}, {run.label}: {error}"
    if failed:
        raise RunError(
            f"Expected all runs of the queue to finish; {len(failed)} did not: "
            f"{' '.join(failed.values())} Run the command again for these, or leave them out."
        )


def train_in_lanes(runner: Runner, queue: Queue, only: Sequence[str], lanes: int) -> None:
    """The same by several processes that end with this one; missing data is said first."""
    looking = replace(runner)  # whose data do not travel to the lanes
    for experiment, seeds in queue:
        todo = runner.missing(experiment, seeds, only)
        looking.check_data(experiment, [run.config for run in todo.values()])
    if lanes == 1:
        train(runner, queue, only)
        return
    context = multiprocessing.get_context("spawn")
    working = [context.Process(target=_lane, args=(runner, queue, only)) for _ in range(lanes)]
    before = signal.signal(signal.SIGTERM, _leave)  # so that a stop reaches the lanes, too
    try:
        for lane in working:
            lane.start()
        for lane in working:
            lane.join()
    finally:
        for lane in working:
            if lane.is_alive():
                lane.terminate()
        signal.signal(signal.SIGTERM, before)
    if any(lane.exitcode for lane in working):
        raise RunError(
            f"Expected {lanes} lanes to train what is missing; one has stopped, as it says above. "
            "Run the command again: finished runs are kept."
        )


def _lane(runner: Runner, queue: Queue, only: Sequence[str]) -> None:
    try:
        train(runner, queue, only)
    except FlrError as error:
        sys.exit(f"lane {os.getpid()}: {error}")


def _leave(_number: int, _frame: FrameType | None) -> None:
    sys.exit(1)
