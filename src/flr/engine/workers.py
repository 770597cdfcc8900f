"""Worker processes: each has a desk, answers orders, and ends when its parent does."""

from __future__ import annotations

import multiprocessing as mp
import os
import pickle
import signal
import sys
import threading
import types
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import cycle
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any, cast

import torch
from torch import Tensor

from flr.arrays import Arrays, nbytes
from flr.client.desk import Answer, Blueprint, Desk, Job, Order
from flr.client.fit import weights_of
from flr.data.dataset import SiteTable
from flr.engine import mail
from flr.engine.allocator import keep_freed_memory
from flr.engine.mail import Note, Slot
from flr.errors import ConfigError, FlrError, RunError
from flr.stack import parts_of

_MORE = 1 << 20  # bytes; what does not fit goes by pipe
AHEAD = 2  # jobs of a worker: it need not wait for us between them
ATTEMPTS = 3  # an order that has killed this many workers will kill the next one too


@dataclass
class Worker:
    """One process, the broadcast it has, and the jobs it was given, in their order."""

    process: Any
    pipe: Connection
    alive: Connection  # its other end reads the end of the file when we die
    slots: Sequence[Slot]  # for the arrays of its replies, in turn
    broadcast: int = 0
    jobs: deque[int] = field(default_factory=deque)
    replies: int = 0

    def answer(self) -> Answer | Tensor:
        """What became of its first job; fails where the process has died."""
        answer = mail.opened(self.pipe.recv(), self.slots[self.replies % len(self.slots)])
        self.replies += 1
        return answer


def prepare() -> None:
    """Starts the process that workers are forked from: it imports torch while we read data.

    Ctrl-C is for us alone, from its first moment on: what it starts with, it hands on.
    """
    forkserver.set_forkserver_preload(["flr.engine.workers"])
    resource_tracker.ensure_running()  # it would unblock Ctrl-C again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        with _main_module_hidden():
            forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Pool:
    """Spreads orders over processes; a worker that dies is replaced and its order given again."""

    def __init__(self, plan: Blueprint, workers: int) -> None:
        for view in plan.views.values():
            view.share_memory_()
        self.plan = replace(plan, sites=cast(SiteTable, plan.sites).share())
        self.context = mp.get_context("forkserver")
        prepare()
        self.size = 2 * nbytes(weights_of(plan.blank_networks())) + _MORE
        self.slot = Slot.of(self.size)  # for what all workers get
        self.workers = [self._start() for _ in range(workers)]
        self.payload: Note = []
        self.broadcasts = 0

    def serve(self, broadcast: Arrays, jobs: Sequence[Job]) -> list[Answer | Tensor]:
        """What became of the jobs, in their order; workers take the first ones first."""
        self.payload = self.slot.put(broadcast)
        self.broadcasts += 1
        results: dict[int, Answer | Tensor] = {}
        waiting = deque(range(len(jobs)))
        deaths = [0] * len(jobs)
        for _ in range(AHEAD):
            for worker in self.workers:
                self._give(worker, waiting, jobs)
        while busy := {w.pipe: w for w in self.workers if w.jobs}:
            for pipe in wait(list(busy)):
                worker = busy[pipe]  # type: ignore[index]
                number = worker.jobs[0]
                try:
                    results[number] = worker.answer()
                    worker.jobs.popleft()
                except (EOFError, OSError):
                    deaths[number] += 1
                    if deaths[number] == ATTEMPTS:
                        raise RunError(_death_notice(jobs[number])) from None
                    waiting.extendleft(reversed(worker.jobs))
                    worker = self._replace(worker)
                self._give(worker, waiting, jobs)
        return [results[number] for number in range(len(jobs))]

    def close(self) -> None:
        """Ends all workers."""
        for worker in self.workers:
            worker.pipe.close()
            worker.alive.close()
        for worker in self.workers:
            worker.process.join(5)
            worker.process.kill()
        self.workers = []

    def _give(self, worker: Worker, waiting: deque[int], jobs: Sequence[Job]) -> None:
        if not waiting or (worker.jobs and mail.is_long(jobs[waiting[0]])):
            return
        number = waiting.popleft()
        payload = self.payload if worker.broadcast != self.broadcasts else None
        worker.jobs.append(number)
        worker.broadcast = self.broadcasts
        try:
            worker.pipe.send((payload, *mail.wrapped(jobs[number])))
        except OSError:
            return  # the worker has died: noticed when its answer is awaited

    def _start(self) -> Worker:
        ours, theirs = self.context.Pipe()
        watched, alive = self.context.Pipe(duplex=False)
        slots = [Slot.of(self.size) for _ in range(AHEAD)]
        given = (theirs, watched, self.slot, slots, self.plan)
        process = self.context.Process(target=_work, args=given, daemon=True)
        try:
            with nullcontext() if self._needs_main() else _main_module_hidden():
                process.start()
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise ConfigError(
                f"Worker processes need a method and a model that can be imported; {error}. "
                "Put them into a module, or set workers = 1."
            ) from error
        theirs.close()
        watched.close()
        return Worker(process, ours, alive, slots)

    def _needs_main(self) -> bool:
        """Whether method or model are defined in the user's script, which then must run again."""
        model = getattr(self.plan.model, "func", self.plan.model)
        owners = {type(part).__module__ for part in parts_of(self.plan.method)}
        return "__main__" in owners | {model.__module__}

    def _replace(self, dead: Worker) -> Worker:
        dead.process.kill()
        dead.pipe.close()
        dead.alive.close()
        self.workers[self.workers.index(dead)] = new = self._start()
        return new


def _work(
    pipe: Connection, watched: Connection, inbox: Slot, outbox: Sequence[Slot], plan: Blueprint
) -> None:
    """The life of a worker: one answer for each order, until the pipe closes."""
    threading.Thread(target=_end_with_parent, args=(watched,), daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends us
    keep_freed_memory()
    torch.set_num_threads(plan.train.threads)
    desk: Desk | None = None
    for slot in cycle(outbox):
        try:
            payload, head, body = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            desk = desk or Desk(plan)
            if payload is not None:
                desk.broadcast = inbox.get(payload)
            message: Any = mail.sealed(desk.do(mail.unwrapped(head, body)), slot)
        except Exception as error:  # noqa: BLE001 - whatever it is, the parent reports it
            message = (type(error) if isinstance(error, FlrError) else RunError, str(error))
        pipe.send(message)


def _end_with_parent(watched: Connection) -> None:
    wait([watched])
    os._exit(1)


def _death_notice(job: Job) -> str:
    what = "predictions"
    if isinstance(job, Order):
        what = f"an answer of client {job.client} in step {job.step}"
    return (
        f"Expected {what}; its worker process was killed {ATTEMPTS} times, perhaps for lack of "
        "memory. Use fewer workers or a smaller batch, then go on with `flr resume`."
    )


@contextmanager
def _main_module_hidden() -> Iterator[None]:
    """Keeps multiprocessing from running the user's script again in another process."""
    real = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = real
