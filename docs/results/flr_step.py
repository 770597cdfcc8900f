"""What FLR adds to a step of `flr bench flr` once the global model has predicted, and its floor.

    python docs/results/flr_step.py

The floor is the same step as one function with the gradient of Eq. 2 written out: as few of
torch's operations as it takes. Both come right after a training step of the network, as in a
round: operations on 32 x 10 numbers cost what it costs to call them, and more with cold caches.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from statistics import median
from types import SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from flr.arrays import summed
from flr.bench import workloads
from flr.bench.bare import network
from flr.client.memory import LabelMixture
from flr.client.tables import Table
from flr.contract import Batch, Site
from flr.engine.allocator import keep_freed_memory
from flr.methods.flr import FLR

EPOCHS = 40
Term = Callable[[Tensor, Batch], Tensor | float]


class AsOneFunction(torch.autograd.Function):
    """The step in a row, in place where it can be."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, tables: Any, looks: Table, index: Tensor) -> Tensor:
        """Updates both tables; the term, with its gradient at hand."""
        p = z.softmax(1)
        q = p.clamp(tables.clamp, 1 - tables.clamp)
        alpha, beta, gamma = tables.now
        s_rows, m_rows = tables.s.values, tables.m.values
        m = (q / q.sum(1, keepdim=True)).lerp_(m_rows.index_select(0, index), gamma)
        m_rows.index_copy_(0, index, m)
        s = looks.values.index_select(0, index).lerp_(s_rows.index_select(0, index), beta)
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


def site() -> Any:
    """A client late in a run, as far as FLR looks at it."""
    work = workloads.get("flr")
    facts = {"model": work.model, "input_shape": work.shape, "classes": work.classes}
    x, y = torch.randn(work.samples, *work.shape), torch.randint(work.classes, (work.samples,))
    return SimpleNamespace(
        model=[network(facts)],
        reference=[network(facts).eval().requires_grad_(False)],
        data=Site("site", x, y, work.classes),
        state={},
        memory={},
        round=4,  # of five: both running averages are on
        rounds=5,
    )


def batches(c: Any) -> list[Batch]:
    """One epoch."""
    parts = torch.randperm(len(c.data)).split(workloads.get("flr").batch)
    return [Batch(c.data.x[rows], c.data.y[rows], rows) for rows in parts]


def seconds(c: Any, b: Batch, term: Term) -> float:
    """Loss and its gradient at the logits, with cold caches: computing only, no waiting."""
    logits = c.model[0](b.x)
    F.cross_entropy(logits, b.y).backward()
    z = logits.detach().requires_grad_()
    began = time.thread_time()
    summed([F.cross_entropy(z, b.y), term(z, b)]).backward()
    return time.thread_time() - began


def assert_alike(tables: LabelMixture, b: Batch, *terms: Term) -> None:
    """The same numbers, but for rounding: the term, its gradient and the rows after it."""
    before = tables.tables()
    found = []
    for term in terms:
        tables.load_tables(before)
        z = torch.randn(len(b.x), 10, generator=torch.Generator().manual_seed(1)).requires_grad_()
        value = torch.as_tensor(term(z, b))
        value.backward()
        found.append((value.detach(), z.grad, tables.tables()))
    torch.testing.assert_close(*found)
    tables.load_tables(before)


def main() -> None:
    """Lets all take turns, batch by batch, and prints the middle of each."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    keep_freed_memory()
    c, flr = site(), FLR(warmup="schedule", server_predictions="round")
    flr.begin(c)
    tables, looks = c.memory["flr.0."], c.memory["flr.0.first"].table
    for b in batches(c):
        flr.regularise(c, 0, c.model[0](b.x), b)  # the global model predicts
    rivals: dict[str, Term] = {
        "cross entropy alone": lambda *_: 0.0,
        "with FLR as it is": partial(flr.regularise, c, 0),
        "with FLR as one function": lambda z, b: AsOneFunction.apply(z, tables, looks, b.index),
    }
    assert_alike(tables, batches(c)[0], *list(rivals.values())[1:])
    tables.schedule(c.round, c.rounds)  # finds that all samples were visited, as in later rounds
    taken: dict[str, list[float]] = {name: [] for name in rivals}
    for _ in range(EPOCHS):
        for b in batches(c):
            for name, term in rivals.items():
                taken[name].append(seconds(c, b, term))
    for name, times in taken.items():
        print(f"{name:26} {1e3 * median(times):.2f} ms")  # noqa: T201


if __name__ == "__main__":
    main()
