"""The in-process transport: asks simulated clients, and lets some of them vanish."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

import torch
from torch import Tensor

from flr import seeds
from flr.arrays import Arrays
from flr.client.desk import Answer, Blueprint, Desk, Job, Look, Order
from flr.contract import Task
from flr.data.dataset import SiteTable
from flr.data.lazy import Inputs, Pictures
from flr.engine.attack import Adversary
from flr.engine.workers import Pool


def piece_of(x: Inputs) -> int:
    """How many samples are looked at together; fixed, as a batch's size changes last bits."""
    return 100 if isinstance(x, Pictures) else 1000  # pictures on disk are decoded for it


class LocalTransport:
    """Answers a task by training its clients on this machine."""

    def __init__(
        self, plan: Blueprint, workers: int, drop: float, adversary: Adversary | None = None
    ) -> None:
        self.plan, self.drop, self.adversary = plan, drop, adversary
        self.sites = cast(SiteTable, plan.sites)  # all of them are here
        self.pool = Pool(plan, workers) if workers > 1 else None
        self.desk = Desk(plan) if self.pool is None else None

    def ask(self, task: Task, versions: Mapping[int, int], predict: bool) -> list[Answer]:
        """The answers of those that did not vanish, sorted: float sums depend on the order."""
        orders = [
            Order(
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
        largest_first = sorted(orders, key=lambda o: -self.sites.size(o.client))
        served = cast(Iterator[Answer], self._serve(task.arrays, largest_first))
        answers = sorted(served, key=lambda a: a.reply.client)
        return self.adversary.tamper(task, answers) if self.adversary else answers

    def vanishes(self, client: int, step: int) -> bool:
        """Whether this client is lost in this step."""
        return (
            self.drop > 0
            and seeds.numpy_generator(self.plan.seed, "drop", client, step).random() < self.drop
        )

    def _serve(self, broadcast: Arrays, jobs: Sequence[Job]) -> Iterator[Answer | Tensor]:
        """What became of the jobs, in their order."""
        if self.pool is not None:
            yield from self.pool.serve(broadcast, jobs)
        if self.desk is not None:
            self.desk.broadcast = broadcast
            for job in jobs:
                yield self.desk.do(job)

    def predict(self, model: Arrays, view: str, rows: Tensor) -> Tensor:
        """Class numbers of some samples by a model; workers share the work in fixed pieces."""
        pieces = rows.split(piece_of(self.plan.views[view]))
        found = self._serve(model, [Look(view, piece) for piece in pieces])
        return torch.cat(cast(list[Tensor], list(found))).long()

    def name(self, client: int) -> str:
        """Simulated clients have numbers only."""
        return f"client {client}"

    def close(self) -> None:
        """Ends the workers."""
        if self.pool is not None:
            self.pool.close()
