"""Worker processes: each trains clients one after another, and ends when its parent does."""

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

from flr.client.worker import ClientResult, ClientTask, ClientWorker, Job, WorkerSpec
from flr.core.arrays import Arrays, nbytes
from flr.core.combine import parts_of
from flr.core.errors import ConfigError, RunError
from flr.data.dataset import SiteTable
from flr.engine.ipc import JobMessage, Note, ResultMessage, SharedBuffer, in_shared_memory, is_long
from flr.engine.memory_allocator import keep_freed_memory
from flr.models.networks import weights_of

_MORE = 1 << 20  # bytes; what does not fit goes by pipe
AHEAD = 2  # jobs of a worker: it need not wait for us between them
ATTEMPTS = 3  # a task that has killed this many workers will kill the next one too


@dataclass
class Worker:
    """One process, the broadcast it has, and the jobs it was given, in their order."""

    process: Any
    pipe: Connection
    alive: Connection  # closed when this process dies, which ends the worker
    buffers: Sequence[SharedBuffer]  # for the arrays of its results, in turn
    broadcast: int = 0
    jobs: deque[int] = field(default_factory=deque)
    results: int = 0

    def result(self) -> ClientResult | Tensor:
        """The result of its first job; raises EOFError or OSError if the process has died."""
        message: ResultMessage = self.pipe.recv()
        buffer = self.buffers[self.results % len(self.buffers)]
        self.results += 1
        return message.decode(buffer)


def prepare() -> None:
    """Starts the process that workers are forked from, which imports torch while data are read.

    It starts with Ctrl-C blocked, and so do the workers: only the main process handles it.
    """
    forkserver.set_forkserver_preload(["flr.engine.pool"])
    resource_tracker.ensure_running()  # started now: later it would unblock Ctrl-C again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        with _main_module_hidden():
            forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Pool:
    """Spreads tasks over processes; a worker that dies is replaced and its tasks given again."""

    def __init__(self, spec: WorkerSpec, workers: int) -> None:
        self.context = mp.get_context("forkserver")
        self.size = 2 * nbytes(weights_of(spec.blank_networks())) + _MORE
        self.payload: Note = []
        self.broadcasts = 0
        self.workers: list[Worker] = []
        with in_shared_memory():
            for view in spec.views.values():
                view.share_memory_()
            self.spec = replace(spec, sites=cast(SiteTable, spec.sites).share())
            self.buffer = SharedBuffer.of(self.size)  # for what all workers get
        prepare()
        try:
            for _ in range(workers):
                self.workers.append(self._start())
        except BaseException:
            self.close()  # nobody else knows of those that have started
            raise

    def serve(self, broadcast: Arrays, jobs: Sequence[Job]) -> list[ClientResult | Tensor]:
        """What became of the jobs, in their order; workers take the first ones first."""
        self.payload = self.buffer.put(broadcast)
        self.broadcasts += 1
        results: dict[int, ClientResult | Tensor] = {}
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
                    results[number] = worker.result()
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
        if not waiting or (worker.jobs and is_long(jobs[waiting[0]])):
            return
        number = waiting.popleft()
        payload = self.payload if worker.broadcast != self.broadcasts else None
        worker.jobs.append(number)
        worker.broadcast = self.broadcasts
        try:
            worker.pipe.send(JobMessage.encode(jobs[number], payload))
        except OSError:
            return  # the worker has died, which is noticed when its result is read

    def _start(self) -> Worker:
        ours, theirs = self.context.Pipe()
        watched, alive = self.context.Pipe(duplex=False)
        with in_shared_memory():
            buffers = [SharedBuffer.of(self.size) for _ in range(AHEAD)]
        given = (theirs, watched, self.buffer, buffers, self.spec)
        process = self.context.Process(target=_work, args=given, daemon=True)
        try:
            hidden = nullcontext() if self._needs_main() else _main_module_hidden()
            with hidden, in_shared_memory():
                process.start()
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise ConfigError(
                f"Worker processes need a method and a model that can be imported; {error}. "
                "Put them into a module, or set workers = 1."
            ) from error
        theirs.close()
        watched.close()
        return Worker(process, ours, alive, buffers)

    def _needs_main(self) -> bool:
        """Whether method or model are defined in the user's script, which then must run again."""
        model = getattr(self.spec.model, "func", self.spec.model)
        owners = {type(part).__module__ for part in parts_of(self.spec.method)}
        return "__main__" in owners | {model.__module__}

    def _replace(self, dead: Worker) -> Worker:
        dead.process.kill()
        dead.pipe.close()
        dead.alive.close()
        self.workers[self.workers.index(dead)] = new = self._start()
        return new


def _work(
    pipe: Connection,
    watched: Connection,
    inbox: SharedBuffer,
    outbox: Sequence[SharedBuffer],
    spec: WorkerSpec,
) -> None:
    """The life of a worker: one result for each job, until the pipe closes."""
    threading.Thread(target=_end_with_parent, args=(watched,), daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the main process handles it
    keep_freed_memory()
    torch.set_num_threads(spec.train.threads)
    worker: ClientWorker | None = None
    for buffer in cycle(outbox):
        try:
            received: JobMessage = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            worker = worker or ClientWorker(spec)
            if received.broadcast is not None:
                worker.broadcast = inbox.get(received.broadcast)
            message = ResultMessage.encode(worker.execute(received.decode()), buffer)
        except Exception as error:  # noqa: BLE001 - whatever it is, the parent reports it
            message = ResultMessage.failed(error)
        pipe.send(message)


def _end_with_parent(watched: Connection) -> None:
    wait([watched])
    os._exit(1)


def _death_notice(job: Job) -> str:
    what = "predictions"
    if isinstance(job, ClientTask):
        what = f"a result of client {job.client} in step {job.step}"
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
