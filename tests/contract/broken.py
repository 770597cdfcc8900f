"""Methods that break one clause each: they show that the clauses can fail."""

from __future__ import annotations

import itertools
import multiprocessing
import os
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from sklearn.datasets import load_digits
from torch import Tensor

from flr.core.arrays import Arrays
from flr.core.contract import Batch, Client, Method, Reply, Server, Task
from flr.core.registry import register
from flr.core.traits import Declared, Traits

DOC = "Broken on purpose.\n\nLeaves the site: see the code."


def broken(name: str):
    """Registers a broken method."""

    def add(cls: type) -> type:
        cls.__doc__ = DOC
        return register(f"broken-{name}")(cls)

    return add


def nudge(c: Client, by: float) -> None:
    """Changes what the client sends."""
    with torch.no_grad():
        next(c.model.parameters()).add_(by)


@broken("rerun")
@dataclass(frozen=True)
class Unseeded(Method):
    def finish(self, c: Client) -> Arrays:
        nudge(c, int.from_bytes(os.urandom(2), "big") / 2**16)
        return {}


@broken("workers")
@dataclass(frozen=True)
class KnowsItsProcess(Method):
    """What it does depends on where it runs."""

    def finish(self, c: Client) -> Arrays:
        nudge(c, 1e-3 if multiprocessing.parent_process() is None else 2e-3)
        return {}


CALLS = itertools.count()


@broken("resume")
@dataclass(frozen=True)
class ForgetsOnResume(Method):
    """Keeps server state where no checkpoint sees it."""

    def reduce(self, s: Server, task: Task, replies: list[Reply]) -> None:
        super().reduce(s, task, replies)
        name = next(k for k in s.arrays if s.arrays[k].is_floating_point())
        s.arrays[name] = s.arrays[name] + (next(CALLS) if s.round > 1 else reset()) / 100


def reset() -> int:
    """Starts counting anew with each run."""
    global CALLS
    CALLS = itertools.count(1)
    return 0


@broken("drop")
@dataclass(frozen=True)
class NeedsEveryone(Method):
    def reduce(self, s: Server, task: Task, replies: list[Reply]) -> None:
        by_client = {r.client: r for r in replies}
        super().reduce(s, task, [by_client[client] for client in task.clients])


@broken("nan")
@dataclass(frozen=True)
class DividesByTheMissing(Method):
    def result(self, s: Server) -> Arrays:
        name = next(k for k in s.arrays if s.arrays[k].is_floating_point())
        return super().result(s) | {name: s.arrays[name] / 0}


@broken("batchnorm")
@dataclass(frozen=True)
class BatchesOfItsOwn(Method):
    def batches(self, c: Client, epoch: int) -> Iterator[Batch]:
        for index in torch.randperm(len(c.data), generator=c.order).split(c.train.batch):
            yield Batch(c.data.x[index], c.data.y[index], index)


@broken("single")
@dataclass(frozen=True)
class NeedsAVariance(Method):
    def regularize(self, c: Client, net: int, logits: Tensor, b: Batch) -> Tensor:
        return logits.var(0).mean()


@broken("undeclared")
@dataclass(frozen=True)
class SendsLabels(Method):
    def finish(self, c: Client) -> Arrays:
        return {"labels": c.data.y}


@broken("smuggle")
@dataclass(frozen=True)
class HidesLabelsInTheModel(Method):
    def finish(self, c: Client) -> Arrays:
        c.model[0].register_buffer("labels", c.data.y)
        return {}


@broken("clean")
@dataclass(frozen=True)
class LooksLabelsUp(Method):
    """Finds its samples in the published data set."""

    def begin(self, c: Client) -> None:
        images = torch.from_numpy(load_digits().images).float().flatten(1) / 16
        rows = torch.cdist(c.data.x.flatten(1), images).argmin(1)
        c.scratch["answers"] = torch.from_numpy(load_digits().target)[rows]


@broken("state")
@dataclass(frozen=True)
class ChangesStateInPlace(Method):
    traits = Traits(keeps=(Declared("visits", (), "how often it was asked"),))

    def begin(self, c: Client) -> None:
        c.state.setdefault("visits", torch.zeros(())).add_(1)


@broken("hoard")
@dataclass(frozen=True)
class KeepsMoreThanItSays(Method):
    def finish(self, c: Client) -> Arrays:
        c.state["secret"] = c.data.x.clone()
        return {}


@broken("bytes")
@dataclass(frozen=True)
class SaysMoreThanItSends(Method):
    traits = Traits(sends=(Declared("score", ("classes",), "never sent"),))


@broken("lam")
@dataclass(frozen=True)
class IgnoresLam(Method):
    lam: float = 1.0

    def regularize(self, c: Client, net: int, logits: Tensor, b: Batch) -> Tensor:
        return logits.square().mean()
