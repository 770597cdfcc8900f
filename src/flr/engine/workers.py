"""Worker processes: each has a desk, answers orders, and ends when its parent does."""

from __future__ import annotations

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
from typing import Any

import torch

from flr import arrays
from flr.arrays import Arrays
from flr.client.desk import Answer, Blueprint, Desk, Order
from flr.contract import Reply
from flr.data.dataset import SiteTable
from flr.errors import ConfigError, FlrError, RunError
from flr.stack import parts_of

ATTEMPTS = 3  # an order that has killed this many workers will kill the next one too


@dataclass
class Worker:
    """One process, the broadcast it has, and what it is busy with."""

    process: Any
    pipe: Connection
    alive: Connection  # its other end reads the end of the file when we die
    broadcast: int = 0
    order: Order | None = None


def prepare() -> None:
    """Starts the process that workers are forked from, so that it imports torch while we read data.

    Torch's optimisers import torch._dynamo when first used: seconds for each worker otherwise.
    """
    forkserver.set_forkserver_preload(["flr.engine.workers", "torch._dynamo"])
    with _main_module_hidden():
        forkserver.ensure_running()


class Pool:
    """Spreads orders over processes; a worker that dies is replaced and its order given again."""

    def __init__(self, plan: Blueprint, workers: int) -> None:
        shared = plan.sites.share() if isinstance(plan.sites, SiteTable) else plan.sites
        self.plan = replace(plan, sites=shared)
        self.context = mp.get_context("forkserver")
        prepare()
        self.workers = [self._start() for _ in range(workers)]
        self.payload = b""
        self.broadcasts = 0

    def serve(self, broadcast: Arrays, orders: Sequence[Order]) -> Iterator[Answer]:
        """Answers as they become ready."""
        self.payload = arrays.pack(broadcast)
        self.broadcasts += 1
        waiting = list(reversed(orders))
        deaths = dict.fromkeys((o.client for o in orders), 0)
        for worker in self.workers[: len(waiting)]:
            self._give(worker, waiting.pop())
        while busy := {w.pipe: w for w in self.workers if w.order is not None}:
            for pipe in wait(list(busy)):
                worker = busy[pipe]  # type: ignore[index]
                order, worker.order = worker.order, None
                try:
                    yield _opened(worker.pipe.recv())
                except (EOFError, OSError):
                    deaths[order.client] += 1  # type: ignore[union-attr]
                    if deaths[order.client] == ATTEMPTS:  # type: ignore[union-attr]
                        raise RunError(_death_notice(order)) from None  # type: ignore[arg-type]
                    waiting.append(order)  # type: ignore[arg-type]
                    worker = self._replace(worker)
                if waiting:
                    self._give(worker, waiting.pop())

    def close(self) -> None:
        """Ends all workers."""
        for worker in self.workers:
            worker.pipe.close()
            worker.alive.close()
        for worker in self.workers:
            worker.process.join(5)
            worker.process.kill()
        self.workers = []

    def _give(self, worker: Worker, order: Order) -> None:
        payload = self.payload if worker.broadcast != self.broadcasts else None
        worker.order, worker.broadcast = order, self.broadcasts
        try:
            worker.pipe.send((payload, replace(order, extra={}), arrays.pack(order.extra)))
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
    torch.set_num_threads(plan.train.threads)
    desk: Desk | None = None
    while True:
        try:
            payload, order, extra = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            desk = desk or Desk(plan)
            if payload is not None:
                desk.broadcast = arrays.unpack(payload)
            answer = desk.serve(replace(order, extra=arrays.unpack(extra)))
            message: Any = _sealed(answer)
        except Exception as error:  # noqa: BLE001 - whatever it is, the parent reports it
            message = (type(error) if isinstance(error, FlrError) else RunError, str(error))
        pipe.send(message)


def _end_with_parent(watched: Connection) -> None:
    wait([watched])
    os._exit(1)


def _sealed(answer: Answer) -> dict[str, Any]:
    """An answer as bytes and plain values: torch would send its tensors as open files."""
    predictions = None if answer.predictions is None else answer.predictions.numpy()
    return {
        "client": answer.reply.client,
        "examples": answer.reply.examples,
        "arrays": arrays.pack(answer.reply.arrays),
        "stateful": answer.stateful,
        "seconds": answer.seconds,
        "predictions": predictions,
    }


def _opened(message: Any) -> Answer:
    if isinstance(message, tuple):
        kind, text = message
        raise kind(text)
    reply = Reply(message["client"], message["examples"], arrays.unpack(message["arrays"]))
    predictions = message["predictions"]
    if predictions is not None:
        predictions = torch.from_numpy(predictions)
    return Answer(reply, message["stateful"], message["seconds"], predictions)


def _death_notice(order: Order) -> str:
    return (
        f"Expected an answer of client {order.client} in step {order.step}; its worker process "
        f"was killed {ATTEMPTS} "
        "times, perhaps for lack of memory. Use fewer workers or a smaller batch, then go on with "
        "`flr resume`."
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
