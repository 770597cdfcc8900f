"""What FLR adds to a training step of `python -m benchmarks flr`, part by part, in forward passes.

    python -m benchmarks.studies.flr_step

All take turns in one process, two epochs of a site at a time. "One function" is FLR's step with the
gradient of Eq. 2 written out, as few of torch's operations as it takes; "all forward passes first"
has the global model predict the batches of an epoch in a row, before training changes the caches.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import median, quantiles
from types import SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks import workloads
from benchmarks.reference import network
from flr.core.arrays import summed
from flr.core.contract import Batch, Site
from flr.engine.memory_allocator import keep_freed_memory
from flr.methods.flr import FLR
from flr.methods.shared.soft_labels import LabelMixture

REPEATS = 80
Epoch = Callable[[Sequence[Batch]], None]


class AsOneFunction(torch.autograd.Function):
    """FLR's step in a row, in place where it can be."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, z_srv: Tensor, tables: Any, index: Tensor) -> Tensor:
        """Updates both tables; the term, with its gradient at hand."""
        p = z.softmax(1)
        q, s = (each.clamp(tables.clamp, 1 - tables.clamp) for each in (p, z_srv.softmax(1)))
        alpha, beta, gamma = tables.now
        s_rows, m_rows = tables.s.values, tables.m.values
        m = (q / q.sum(1, keepdim=True)).lerp_(m_rows.index_select(0, index), gamma)
        m_rows.index_copy_(0, index, m)
        s = s.div_(s.sum(1, keepdim=True)).lerp_(s_rows.index_select(0, index), beta)
        s_rows.index_copy_(0, index, s)
        t = m.lerp_(s, alpha)
        inner = (q * t).sum(1, keepdim=True)
        slope = t.mul_(q == p).div_(inner - 1)
        weight = tables.lam / len(p)
        ctx.gradient = torch._softmax_backward_data(slope, p, 1, p.dtype).mul_(weight)
        return torch.log1p(inner.neg_()).sum().mul_(weight)

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor | None, ...]:
        """The gradient of the logits alone."""
        return ctx.gradient * outer[0], None, None, None


def stand_in(**parts: Any) -> Any:
    """A client that has only what the method looks at."""
    return SimpleNamespace(**parts)


class Trainer:
    """A client late in a run, and ways to train it for an epoch."""

    def __init__(self) -> None:
        work = workloads.get("flr")
        facts = {"model": work.model, "input_shape": work.shape, "classes": work.classes}
        self.net, self.reference = (network(facts) for _ in range(2))
        self.reference.eval().requires_grad_(False)
        x, y = torch.randn(work.samples, *work.shape), torch.randint(work.classes, (work.samples,))
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.01, fused=True)
        self.size = work.batch
        self.client = stand_in(
            model=nn.ModuleList([self.net]),
            reference=[self.reference],
            data=Site("site", x, y, work.classes),
            state={},
            scratch={},
            round=4,  # of five: both running averages are on
            rounds=5,
        )
        self.flr = FLR(warmup="schedule")
        self.flr.begin(self.client)
        self.tables: LabelMixture = self.client.scratch["flr.0."]

    def batches(self) -> list[Batch]:
        """One epoch."""
        data = self.client.data
        parts = torch.randperm(len(data)).split(self.size)
        return [Batch(data.x[rows], data.y[rows], rows) for rows in parts]

    def step(self, logits: Tensor, b: Batch, *terms: Tensor | float) -> None:
        """One update of the weights."""
        loss = summed([F.cross_entropy(logits, b.y), *terms])
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    def fedavg(self, epoch: Sequence[Batch]) -> None:
        """Cross entropy alone."""
        for b in epoch:
            self.step(self.net(b.x), b)

    def thrown_away(self, epoch: Sequence[Batch]) -> None:
        """The forward passes that FLR cannot do without, and nothing else of it."""
        for b in epoch:
            self.reference(b.x)
            self.step(self.net(b.x), b)

    def as_it_is(self, epoch: Sequence[Batch]) -> None:
        """The method itself."""
        for b in epoch:
            logits = self.net(b.x)
            self.step(logits, b, self.flr.regularize(self.client, 0, logits, b))

    def one_function(self, epoch: Sequence[Batch]) -> None:
        """Fewer operations."""
        for b in epoch:
            logits = self.net(b.x)
            self.step(logits, b, self.term(logits, self.reference(b.x), b))

    def first(self, epoch: Sequence[Batch]) -> None:
        """Fewer operations, and forward passes with warm caches."""
        for b, said in zip(epoch, [self.reference(b.x) for b in epoch], strict=True):
            logits = self.net(b.x)
            self.step(logits, b, self.term(logits, said, b))

    def forwards(self, epoch: Sequence[Batch]) -> None:
        """The unit."""
        for b in epoch:
            self.reference(b.x)

    def term(self, logits: Tensor, said: Tensor, b: Batch) -> Tensor:
        """FLR's term by the one function."""
        one: Any = AsOneFunction
        found: Tensor = one.apply(logits, said, self.tables, b.index)
        return found

    def assert_alike(self) -> None:
        """The same numbers, but for rounding: the term, its gradient and the rows after it."""
        b, before, found = self.batches()[0], self.tables.tables(), []
        terms: list[Callable[[Tensor], Any]] = [
            lambda z: self.flr.regularize(self.client, 0, z, b),
            lambda z: self.term(z, self.reference(b.x), b),
        ]
        for term in terms:
            self.tables.load_tables(before)
            z = self.net(b.x).detach().requires_grad_()
            value = term(z)
            value.backward()
            found.append((value.detach(), z.grad, self.tables.tables()))
        torch.testing.assert_close(*found)


def seconds(epoch: Epoch, batches: Sequence[Batch]) -> float:
    """For a step; the first batch only brings one's own memory back into the caches."""
    epoch(batches[:1])
    began = time.perf_counter()
    epoch(batches)
    epoch(batches)
    return (time.perf_counter() - began) / (2 * len(batches))


def main() -> None:
    """Lets all take turns and prints the middle of each, and the middle half of what it adds."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    keep_freed_memory()
    trainer = Trainer()
    trainer.as_it_is(trainer.batches())  # every sample has been visited, as in later rounds
    trainer.tables.schedule(4, 5)
    trainer.assert_alike()
    rivals: dict[str, Epoch] = {
        "FedAvg": trainer.fedavg,
        "with forward passes, thrown away": trainer.thrown_away,
        "with FLR as it is": trainer.as_it_is,
        "with FLR as one function": trainer.one_function,
        "with that, all forward passes first": trainer.first,
        "a forward pass": trainer.forwards,
    }
    taken: dict[str, list[float]] = {name: [] for name in rivals}
    for repeat in range(REPEATS):
        place = repeat % len(rivals)
        order = list(rivals.items())
        for name, epoch in order[place:] + order[:place]:
            taken[name].append(seconds(epoch, trainer.batches()))
    unit = median(taken["a forward pass"])
    for name, times in taken.items():
        more = [(own - base) / unit for own, base in zip(times, taken["FedAvg"], strict=True)]
        low, middle, high = quantiles(more, n=4)
        added = f"  adds {middle:.2f} ({low:.2f}-{high:.2f})" if name.startswith("with") else ""
        print(f"{name:38} {1e3 * median(times):6.2f} ms{added}")


if __name__ == "__main__":
    main()
