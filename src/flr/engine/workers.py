"""Worker processes: each has a desk, answers orders, and ends when its parent does."""

from __future__ import annotations

import ctypes
import multiprocessing as mp
import os
import pickle
import signal
import sys
import threading
import types
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from multiprocessing import forkserver
from multiprocessing.connection import Connection, wait
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from flr import arrays
from flr.arrays import Arrays
from flr.client.desk import Answer, Blueprint, Desk, Job, Look, Order
from flr.contract import Reply
from flr.data.dataset import SiteTable
from flr.errors import ConfigError, FlrError, RunError
from flr.stack import parts_of

ATTEMPTS = 3  # an order that has killed this many workers will kill the next one too


@dataclass
class Worker:
    """One process, the broadcast it has, and the number of the job that it is busy with."""

    process: Any
    pipe: Connection
    alive: Connection  # its other end reads the end of the file when we die
    broadcast: int = 0
    job: int | None = None


def prepare() -> None:
    """Starts the process that workers are forked from: it imports torch while we read data."""
    forkserver.set_forkserver_preload(["flr.engine.workers"])
    with _main_module_hidden():
        forkserver.ensure_running()


class Pool:
    """Spreads orders over processes; a worker that dies is replaced and its order given again."""

    def __init__(self, plan: Blueprint, workers: int) -> None:
        for view in plan.views.values():
            view.share_memory_()
        self.plan = replace(plan, sites=cast(SiteTable, plan.sites).share())
        self.context = mp.get_context("forkserver")
        prepare()
        self.workers = [self._start() for _ in range(workers)]
        self.payload = b""
        self.broadcasts = 0

    def serve(self, broadcast: Arrays, jobs: Sequence[Job]) -> list[Answer | Tensor]:
        """What became of the jobs, in their order; workers take the first ones first."""
        self.payload = arrays.pack(broadcast)
        self.broadcasts += 1
        results: dict[int, Answer | Tensor] = {}
        waiting = list(reversed(range(len(jobs))))
        deaths = [0] * len(jobs)
        for worker in self.workers[: len(waiting)]:
            self._give(worker, waiting.pop(), jobs)
        while busy := {w.pipe: w for w in self.workers if w.job is not None}:
            for pipe in wait(list(busy)):
                worker = busy[pipe]  # type: ignore[index]
                number, worker.job = cast(int, worker.job), None
                try:
                    results[number] = _opened(worker.pipe.recv())
                except (EOFError, OSError):
                    deaths[number] += 1
                    if deaths[number] == ATTEMPTS:
                        raise RunError(_death_notice(jobs[number])) from None
                    waiting.append(number)
                    worker = self._replace(worker)
                if waiting:
                    self._give(worker, waiting.pop(), jobs)
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

    def _give(self, worker: Worker, number: int, jobs: Sequence[Job]) -> None:
        payload = self.payload if worker.broadcast != self.broadcasts else None
        worker.job, worker.broadcast = number, self.broadcasts
        try:
            worker.pipe.send((payload, *_wrapped(jobs[number])))
        except OSError:
            return  # the worker has died: noticed when its answer is awaited

    def _start(self) -> Worker:
        ours, theirs = self.context.Pipe()
        watched, alive = self.context.Pipe(duplex=False)
        process = self.context.Process(target=_work, args=(theirs, watched, self.plan), daemon=True)
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
        return Worker(process, ours, alive)

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


def _work(pipe: Connection, watched: Connection, plan: Blueprint) -> None:
    """The life of a worker: one answer for each order, until the pipe closes."""
    threading.Thread(target=_end_with_parent, args=(watched,), daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends us
    keep_freed_memory()
    torch.set_num_threads(plan.train.threads)
    desk: Desk | None = None
    while True:
        try:
            payload, head, body = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            desk = desk or Desk(plan)
            if payload is not None:
                desk.broadcast = arrays.unpack(payload)
            message: Any = _sealed(desk.do(_unwrapped(head, body)))
        except Exception as error:  # noqa: BLE001 - whatever it is, the parent reports it
            message = (type(error) if isinstance(error, FlrError) else RunError, str(error))
        pipe.send(message)


def keep_freed_memory() -> None:
    """Every step frees what the next one needs: glibc would give it back, and fetch it again.

    The pages of a small CNN's step cost a fifth of its time. Other C libraries are left alone.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return
    trim_threshold, mmap_threshold = -1, -3
    mallopt(mmap_threshold, 32 << 20)  # larger blocks, as a data set's, are given back
    mallopt(trim_threshold, 256 << 20)


def _end_with_parent(watched: Connection) -> None:
    wait([watched])
    os._exit(1)


def _wrapped(job: Job) -> tuple[Any, Any]:
    """A job as plain values: torch would send its tensors as open files."""
    if isinstance(job, Look):
        return job.view, job.rows.numpy()
    return replace(job, extra={}), arrays.pack(job.extra)


def _unwrapped(head: Any, body: Any) -> Job:
    if isinstance(head, str):
        return Look(head, torch.from_numpy(body))
    order: Order = replace(head, extra=arrays.unpack(body))
    return order


def _sealed(answer: Answer | Tensor) -> Any:
    """What became of a job, as bytes and plain values."""
    if isinstance(answer, Tensor):
        return answer.numpy()
    predictions = None if answer.predictions is None else answer.predictions.numpy()
    return {
        "client": answer.reply.client,
        "examples": answer.reply.examples,
        "arrays": arrays.pack(answer.reply.arrays),
        "stateful": answer.stateful,
        "seconds": answer.seconds,
        "predictions": predictions,
    }


def _opened(message: Any) -> Answer | Tensor:
    if isinstance(message, tuple):
        kind, text = message
        raise kind(text)
    if isinstance(message, np.ndarray):
        return torch.from_numpy(message)
    reply = Reply(message["client"], message["examples"], arrays.unpack(message["arrays"]))
    predictions = message["predictions"]
    if predictions is not None:
        predictions = torch.from_numpy(predictions)
    return Answer(reply, message["stateful"], message["seconds"], predictions)


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
