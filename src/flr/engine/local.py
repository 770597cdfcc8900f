"""The in-process transport: asks simulated clients, and lets some of them vanish."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

import torch
from torch import Tensor

from flr.client.worker import ClientResult, ClientTask, ClientWorker, Job, PredictJob, WorkerSpec
from flr.core import seeds
from flr.core.arrays import Arrays
from flr.core.contract import Task
from flr.data.dataset import SiteTable
from flr.data.on_disk import Numbers, Pictures
from flr.engine.adversary import Adversary
from flr.engine.ipc import NoSharedMemoryError
from flr.engine.pool import Pool

log = logging.getLogger("flr")


def piece_of(x: Numbers) -> int:
    """How many samples are looked at together; fixed, as a batch's size changes last bits."""
    return 100 if isinstance(x, Pictures) else 1000  # pictures on disk are decoded for it


def start_pool(spec: WorkerSpec, workers: int) -> Pool | None:
    """Worker processes, or none where there is too little memory that they could share."""
    try:
        return Pool(spec, workers)
    except NoSharedMemoryError as error:
        log.warning("%s Going on with one process: slower, with the same numbers.", error)
        return None


class LocalTransport:
    """Answers a task by training its clients on this machine."""

    def __init__(
        self, spec: WorkerSpec, workers: int, drop: float, adversary: Adversary | None = None
    ) -> None:
        self.spec, self.drop, self.adversary = spec, drop, adversary
        self.sites = cast(SiteTable, spec.sites)  # all of them are here
        self.pool = start_pool(spec, workers) if workers > 1 else None
        self.worker = ClientWorker(spec) if self.pool is None else None

    def ask(self, task: Task, versions: Mapping[int, int], predict: bool) -> list[ClientResult]:
        """The results of clients that did not vanish, sorted: float sums depend on the order."""
        tasks = [
            ClientTask(
                task=task.name,
                client=client,
                step=task.step,
                round=task.round,
                rounds=task.rounds,
                version=versions.get(client),
                extra=task.extra.get(client, {}),
                predict=predict,
            )
            for client in task.clients
            if not self.vanishes(client, task.step)
        ]
        largest_first = sorted(tasks, key=lambda t: -self.sites.size(t.client))
        served = cast(Iterator[ClientResult], self._serve(task.arrays, largest_first))
        results = sorted(served, key=lambda result: result.reply.client)
        return self.adversary.tamper(task, results) if self.adversary else results

    def vanishes(self, client: int, step: int) -> bool:
        """Whether this client is lost in this step."""
        return (
            self.drop > 0
            and seeds.numpy_generator(self.spec.seed, "drop", client, step).random() < self.drop
        )

    def _serve(self, broadcast: Arrays, jobs: Sequence[Job]) -> Iterator[ClientResult | Tensor]:
        """The results of jobs, in their order."""
        if self.pool is not None:
            yield from self.pool.serve(broadcast, jobs)
        if self.worker is not None:
            self.worker.broadcast = broadcast
            for job in jobs:
                yield self.worker.execute(job)

    def predict(self, model: Arrays, view: str, rows: Tensor) -> Tensor:
        """Class numbers of some samples by a model."""
        return self._predicted(model, view, rows, logits=False).long()

    def logits(self, model: Arrays, view: str, rows: Tensor) -> Tensor:
        """The numbers that these classes are the largest of."""
        return self._predicted(model, view, rows, logits=True)

    def _predicted(self, model: Arrays, view: str, rows: Tensor, *, logits: bool) -> Tensor:
        """Workers share the work in fixed pieces."""
        pieces = rows.split(piece_of(self.spec.views[view]))
        found = self._serve(model, [PredictJob(view, piece, logits) for piece in pieces])
        return torch.cat(cast(list[Tensor], list(found)))

    def name(self, client: int) -> str:
        """Simulated clients have numbers only."""
        return f"client {client}"

    def close(self) -> None:
        """Ends the workers."""
        if self.pool is not None:
            self.pool.close()
