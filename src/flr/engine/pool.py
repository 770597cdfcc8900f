"""Worker processes: each trains clients one after another, and ends when its parent does."""

from __future__ import annotations

import logging
import multiprocessing as mp
import os
import pickle
import signal
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, TypeVar, cast

import cloudpickle
import torch
from torch import Tensor

from flr.client.worker import ClientResult, ClientTask, ClientWorker, Job, WorkerSpec
from flr.core.arrays import Arrays, nbytes
from flr.core.errors import ConfigError, RunError
from flr.data.dataset import SiteTable
from flr.engine.fork_server import main_module_hidden, prepare
from flr.engine.ipc import JobMessage, Note, ResultMessage, SharedBuffer, in_shared_memory, is_long
from flr.engine.memory_allocator import keep_freed_memory
from flr.models.networks import weights_of

log = logging.getLogger("flr")

T = TypeVar("T")

_MORE = 1 << 20  # bytes; what does not fit goes by pipe
AHEAD = 2  # jobs of a worker: it need not wait for us between them
ATTEMPTS = 3  # a task that has killed this many workers will kill the next one too
PAUSE = 0.5  # seconds, then longer: one that was killed still counts as running for a moment
PATIENCE = 30.0  # seconds: one that was stopped for longer than two of these is given up


@dataclass
class Worker:
    """One process, the broadcast it has, and the jobs it was given, in their order."""

    process: Any
    pipe: Connection
    alive: Connection  # closed when this process dies, which ends the worker
    buffers: Sequence[SharedBuffer]  # for the arrays of its results, in turn
    device: str
    broadcast: int = 0
    jobs: deque[int] = field(default_factory=deque)
    results: int = 0

    def result(self) -> ClientResult | Tensor:
        """The result of its first job; raises EOFError or OSError if the process has died."""
        message: ResultMessage = self.pipe.recv()
        buffer = self.buffers[self.results % len(self.buffers)]
        self.results += 1
        return message.decode(buffer)


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
            spec = replace(spec, sites=cast(SiteTable, spec.sites).share())
            if spec.held_out is not None:
                spec = replace(spec, held_out=cast(SiteTable, spec.held_out).share())
            self.buffer = SharedBuffer.of(self.size)  # for what all workers get
        self.sent = replace(spec, method=with_code(spec.method), model=with_code(spec.model))
        try:
            for device in spec.train.of_workers(workers):
                self.workers.append(self._start(device))
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
        stopped: set[int] = set()
        while busy := {w.pipe: w for w in self.workers if w.jobs}:
            ready = wait(list(busy), PATIENCE)
            stopped = set() if ready else _end_stopped(busy, stopped)
            for pipe in ready:
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

    def _start(self, device: str) -> Worker:
        ours, theirs = self.context.Pipe()
        watched, alive = self.context.Pipe(duplex=False)
        with in_shared_memory():
            buffers = [SharedBuffer.of(self.size) for _ in range(AHEAD)]
        train = self.sent.train.model_copy(update={"device": device})
        own = replace(self.sent, train=train)
        process = self._launch((theirs, watched, self.buffer, buffers, own))
        theirs.close()
        watched.close()
        return Worker(process, ours, alive, buffers, device)

    def _launch(self, given: tuple[Any, ...]) -> Any:
        """A new process; where the one that it would be forked from was killed, from another."""
        for attempt in range(1, ATTEMPTS + 1):
            process = self.context.Process(target=_work, args=given, daemon=True)
            try:
                prepare()
                with main_module_hidden(), in_shared_memory():
                    process.start()
                return process
            except (EOFError, OSError) as error:
                if attempt == ATTEMPTS:
                    raise RunError(
                        f"Expected a process to fork workers from; it has ended {ATTEMPTS} times "
                        f"({error or 'end of file'}), perhaps for lack of memory. Use fewer "
                        "workers, or set workers = 1."
                    ) from error
                time.sleep(PAUSE * attempt)
        raise AssertionError("the last attempt returns or raises")

    def _replace(self, dead: Worker) -> Worker:
        dead.process.kill()
        dead.pipe.close()
        dead.alive.close()
        self.workers[self.workers.index(dead)] = new = self._start(dead.device)
        return new


def with_code(part: T) -> T:
    """Stands for a method or a model on its way to a worker, with what a notebook has defined.

    Only our own workers read it, from the pipe that we hold.
    """
    try:
        return cast(T, _ByValue(cloudpickle.dumps(part)))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ConfigError(
            f"Expected a method and a model that worker processes can be sent; {error}. Put what "
            "cannot be sent (open files, locks) out of them, or set workers = 1."
        ) from error


@dataclass(frozen=True)
class _ByValue:
    """Becomes, where it is read, what it was made of."""

    content: bytes

    def __reduce__(self) -> tuple[Any, tuple[bytes]]:
        return cloudpickle.loads, (self.content,)


def _work(
    pipe: Connection,
    watched: Connection,
    inbox: SharedBuffer,
    outbox: Sequence[SharedBuffer],
    spec: WorkerSpec,
) -> None:
    """The life of a worker: one result for each job, until the pipe closes."""
    threading.Thread(target=end_with_parent, args=(watched,), daemon=True).start()
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


def end_with_parent(watched: Connection) -> None:
    """Ends this process at once when its parent does, who has the other end."""
    wait([watched])
    os._exit(1)


def _end_stopped(busy: Mapping[Any, Worker], before: set[int]) -> set[int]:
    """Kills workers that were stopped the last time as well; those that are stopped now.

    Nobody may ever let them go on (`kill -STOP`); one that is killed is replaced.
    """
    stopped = {w.process.pid for w in busy.values() if _is_stopped(w.process.pid)}
    for worker in busy.values():
        if worker.process.pid in stopped & before:
            log.warning("Worker process %s is stopped; another takes its place", worker.process.pid)
            worker.process.kill()
    return stopped


def _is_stopped(pid: int) -> bool:
    """Whether a process was stopped, as far as the system tells."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "Tt"
    except (OSError, IndexError):
        return False


def _death_notice(job: Job) -> str:
    what = "predictions"
    if isinstance(job, ClientTask):
        what = f"a result of client {job.client} in step {job.step}"
    return (
        f"Expected {what}; its worker process was killed {ATTEMPTS} times, perhaps for lack of "
        "memory. Use fewer workers or a smaller batch, then go on with `flr resume`."
    )
