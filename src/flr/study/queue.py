"""Many tables in one go: in their order, in several lanes, what they share trained once.

A lane is a process that takes the next run which no other lane is at. A stopped queue goes on where
it was, for finished cells are files and half a run is resumed. A run that fails, or takes its lane
down with it, stops no other.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from types import FrameType
from typing import Any

from flr.core import registry
from flr.core.arrays import write_atomically
from flr.core.errors import FlrError, RunError
from flr.engine.fork_server import main_module_hidden
from flr.engine.pool import end_with_parent, with_code
from flr.study.experiment import Experiment
from flr.study.runner import Runner

log = logging.getLogger("flr")

Queue = Sequence[tuple[Experiment, tuple[int, ...]]]  # each with the seeds it is trained with
Failures = dict[str, str]  # why, by the name of a cell
Tell = Callable[[str, str | None], None]  # a run that begins or ends, and why it has failed

ATTEMPTS = 3  # a run that has killed this many lanes will kill the next one too
_PATIENCE = 10.0  # seconds for a lane to keep its last round


def train(
    runner: Runner,
    queue: Queue,
    only: Sequence[str] = (),
    tell: Tell = lambda _name, _why: None,
    skip: Collection[str] = (),
) -> Failures:
    """Trains all that is missing but `skip`; says what has failed."""
    failed: Failures = {}
    for patience in (0, -1):  # first what nobody else is at; then what is left, once it is free
        for experiment, seeds in queue:
            for name, run in runner.missing(experiment, seeds, only).items():
                if name in failed or name in skip:
                    continue
                tell(name, None)
                try:
                    runner.finish(experiment, name, run, patience)
                except FlrError as error:
                    failed[name] = f"{experiment.name}, {run.label}: {error}"
                except Exception as error:  # noqa: BLE001 - a plugin may do anything; others go on
                    where = runner.folder / "runs" / f"{name}.error.txt"
                    write_atomically(where, traceback.format_exc())
                    said = f"{type(error).__name__}: {error} (see {where})"
                    failed[name] = f"{experiment.name}, {run.label}: {said}."
                tell(name, failed.get(name, ""))
    return failed


def require_all(failed: Failures) -> None:
    """One error for all runs that have failed."""
    if failed:
        raise RunError(
            f"Expected all runs of the queue to finish; {len(failed)} did not: "
            f"{' '.join(failed.values())} Run the command again for these, or leave them out."
        )


def train_in_lanes(
    runner: Runner, queue: Queue, only: Sequence[str], lanes: int, *, apart: bool = False
) -> Failures:
    """The same by several processes that end with this one; missing data is said first.

    One lane is this process, unless it is to be `apart`: what a run brings down is then not us.
    """
    looking = replace(runner)  # whose data do not travel to the lanes
    left = 0
    for experiment, seeds in queue:
        todo = runner.missing(experiment, seeds, only)
        looking.check_data(experiment, [run.config for run in todo.values()])
        left += len(todo)
    if lanes == 1 and not apart:
        return train(runner, queue, only)
    supervisor = _Supervisor((runner, queue, only))
    with _leaving_at_sigterm():  # so that a stop reaches the lanes, too
        try:
            for _ in range(min(lanes, left)):
                supervisor.start()
            supervisor.watch()
        finally:
            supervisor.close()
    return supervisor.failed


@dataclass
class _Lane:
    process: Any
    pipe: Connection  # what it tells
    alive: Connection  # closed when this process dies, which ends the lane
    run: str = ""  # that it is at
    done: bool = False


class _Supervisor:
    """Puts another lane in the place of one that was killed, and knows at which run it was."""

    def __init__(self, work: tuple[Runner, Queue, Sequence[str]]) -> None:
        self.context = multiprocessing.get_context("spawn")
        self.work = work
        self.brought = with_code(registry.brought())
        self.lanes: list[_Lane] = []
        self.deaths: Counter[str] = Counter()
        self.failed: Failures = {}

    def start(self) -> None:
        ours, theirs = self.context.Pipe(duplex=False)
        watched, alive = self.context.Pipe(duplex=False)
        given = (self.brought, *self.work, tuple(self.failed), theirs, watched)
        process = self.context.Process(target=_lane, args=given)
        with main_module_hidden():
            process.start()
        theirs.close()
        watched.close()
        self.lanes.append(_Lane(process, ours, alive))

    def watch(self) -> None:
        """Until every lane has ended."""
        while self.lanes:
            ready = wait([lane.pipe for lane in self.lanes])
            for lane in [lane for lane in self.lanes if lane.pipe in ready]:
                try:
                    name, why = lane.pipe.recv()
                except (EOFError, OSError):
                    self.ended(lane)
                    continue
                lane.done, lane.run = not name, name if why is None else ""
                if why:
                    self.failed[name] = why

    def ended(self, lane: _Lane) -> None:
        """A lane without work is done; the run that kills lane after lane is given up."""
        lane.process.join()
        lane.pipe.close()
        lane.alive.close()
        self.lanes.remove(lane)
        if lane.done:
            return
        self.deaths[lane.run] += 1
        if not lane.run and self.deaths[""] >= ATTEMPTS:
            raise RunError(
                f"Expected a process to train in; it has ended {ATTEMPTS} times before its first "
                "run, as it says above. Use fewer jobs, then run the command again."
            )
        if self.deaths[lane.run] >= ATTEMPTS:
            self.failed[lane.run] = (
                f"run {lane.run}: its process was killed {ATTEMPTS} times, perhaps for lack of "
                "memory; use fewer jobs."
            )
        else:
            log.warning("The process of run %s has ended; another goes on with it", lane.run)
        self.start()

    def close(self) -> None:
        """Ends all lanes, which keep their last whole round."""
        for lane in self.lanes:
            lane.process.terminate()
        for lane in self.lanes:
            lane.process.join(_PATIENCE)
            lane.process.kill()


def _lane(
    brought: Sequence[registry.Entry],
    runner: Runner,
    queue: Queue,
    only: Sequence[str],
    skip: Collection[str],
    pipe: Connection,
    watched: Connection,
) -> None:
    threading.Thread(target=end_with_parent, args=(watched,), daemon=True).start()
    registry.adopt(brought)
    with suppress(KeyboardInterrupt):  # the process that has started us says so
        train(runner, queue, only, lambda name, why: pipe.send((name, why)), skip)
        pipe.send(("", None))
        return
    os._exit(1)


@contextmanager
def _leaving_at_sigterm() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _leave(_number: int, _frame: FrameType | None) -> None:
    sys.exit(1)
