"""What a client remembers of each sample: running averages of predictions, and their mixture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from flr.arrays import Arrays
from flr.client.tables import Form, Table, fill
from flr.contract import Batch, Client


class Schedule(NamedTuple):
    """FLR's three weights at one round."""

    alpha: float
    beta: float
    gamma: float


def default_warmup(rounds: int) -> int:
    """R_w = 50, or a sixth of a shorter run (the paper's 50 of 300)."""
    return min(50, round(rounds / 6))


def schedule(
    r: int,
    R: int,  # noqa: N803 - the paper's letters
    R_w: int,  # noqa: N803
    alpha: float = 0.9,
    beta: float = 0.7,
    gamma: float = 0.5,
    linear: bool = True,
) -> Schedule:
    """alpha * r/R (or alpha); beta from R/2 on; gamma from R_w on. Zero means "no averaging"."""
    return Schedule(
        alpha=alpha * r / R if linear else alpha,
        beta=0.0 if r < R / 2 else beta,
        gamma=0.0 if r < R_w else gamma,
    )


def clamped(p: Tensor, clamp: float) -> Tensor:
    """p within [clamp, 1 - clamp], not normalised again; stops the gradient where it is active."""
    return p.clamp(clamp, 1 - clamp) if clamp else p


def settled(p: Tensor, clamp: float) -> Tensor:
    """A prediction as it enters a table: clamped, on the simplex, without gradient."""
    q = clamped(p.detach(), clamp)
    return q / q.sum(1, keepdim=True)


def running_average(previous: Tensor, value: Tensor, decay: float, seen: Tensor | None) -> Tensor:
    """decay * previous + (1 - decay) * value; a sample's first value is taken as it is.

    `seen` says which samples have a previous value; None: all.
    """
    average = decay * previous + (1 - decay) * value
    return average if seen is None else torch.where(seen[:, None], average, value)


def mixture(s: Tensor, m: Tensor, alpha: float) -> Tensor:
    """t = alpha * s + (1 - alpha) * m."""
    return alpha * s + (1 - alpha) * m


def agreement(p: Tensor, t: Tensor) -> Tensor:
    """mean_i log(1 - <p_i, t_i>): falls without bound as prediction p moves to target t."""
    return torch.log1p(-(p * t).sum(1)).mean()


@dataclass(frozen=True)
class Remembered:
    """The samples of a batch whose tables are updated, and how their targets reach its rows."""

    p: Tensor  # the local model's predictions
    x: Tensor
    index: Tensor  # without repeats
    rows: Tensor  # of the targets, for each row of the plain batch

    def spread(self, t: Tensor, b: Batch) -> Tensor:
        """Targets for the rows of a batch; where it is mixed, they are mixed alike."""
        if b.plain is None or b.partner is None:
            return t
        plain, n = t[self.rows], len(b.x)
        return b.weight * plain[:n] + (1 - b.weight) * plain[b.partner[:n]]


def remembered(c: Client, net: int, logits: Tensor, b: Batch) -> Remembered:
    """What enters the tables: the predictions on unmixed inputs, each sample once."""
    return visited(c, net, logits.detach().softmax(1), b)


def visited(c: Client, net: int, p: Tensor, b: Batch) -> Remembered:
    """`remembered` for those who have the batch's predictions at hand.

    For a mixed batch this takes one more forward pass, in eval mode so that BatchNorm's statistics
    see mixed inputs only.
    """
    if b.plain is None:
        return Remembered(p.detach(), b.x, b.index, b.index)
    index, rows = b.plain.index.unique(return_inverse=True)
    first = torch.full_like(index, len(rows)).scatter_reduce(
        0, rows, torch.arange(len(rows), device=rows.device), "amin"
    )
    x = b.plain.x[first]
    with torch.no_grad(), evaluating(c.model[net]):
        return Remembered(c.model[net](x).softmax(1), x, index, rows)


class FirstLooks:
    """What a frozen network said of each sample when it was asked first: later visits reuse it."""

    def __init__(self, samples: int, classes: int, form: Form, device: torch.device) -> None:
        self.table = Table(samples, classes, form).to(device)
        self.new = torch.ones(samples, dtype=torch.bool, device=device)
        self.any_new = True  # known without a look at the device

    @torch.no_grad()
    def predictions(self, network: nn.Module, x: Tensor, index: Tensor) -> Tensor:
        """Of the samples `index`, as augmented in `x` where this is their first visit."""
        if not self.any_new:
            return self.table[index]
        new = self.new[index]
        if not new.any():
            return self.table[index]
        fresh: Tensor = network(x if new.all() else x[new]).softmax(1)
        self.table[index[new]] = fresh
        self.new[index] = False
        self.any_new = bool(self.new.any())
        if new.all():
            return fresh
        found = self.table[index].to(fresh.dtype)
        found[new] = fresh
        return found


@contextmanager
def evaluating(network: nn.Module) -> Iterator[None]:
    """In eval mode for a moment; every module returns to the mode it had."""
    modes = [(module, module.training) for module in network.modules()]
    network.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


class LabelMixture(nn.Module):
    """FLR's regulariser for your own loop: lam * mean log(1 - <p, t>), t = alpha s + (1 - alpha) m.

    Three lines in a PyTorch or Flower client::

        mixture = flr.LabelMixture(samples=len(data), classes=10)  # once; keep it between rounds
        mixture.schedule(round, rounds)                            # every round
        loss = cross_entropy(logits, y) + mixture(logits, global_logits, index)

    `global_logits` come from the received model, frozen, in eval mode, on the same (augmented)
    batch; `index` holds the samples' stable numbers, each once. The tables s and m are buffers that
    stay out of `state_dict()`, so that they cannot slip to a server with the weights; save and
    restore them with `tables()` and `load_tables()`.

    `dtype` and `top_k` say how a row is stored between two visits; the arithmetic, and with it the
    term of the present visit, stays in float32 or better. With `top_k`, a row keeps its k largest
    entries and its other classes share the rest evenly; k is at most the number of classes.
    """

    s: Table  # running average of the global model's predictions
    m: Table  # of the local model's
    seen: Tensor  # samples

    def __init__(
        self,
        samples: int,
        classes: int,
        *,
        lam: float = 2.0,
        alpha: float = 0.9,
        beta: float = 0.7,
        gamma: float = 0.5,
        linear: bool = True,
        clamp: float = 1e-4,
        dtype: torch.dtype = torch.float32,
        top_k: int | None = None,
    ) -> None:
        super().__init__()
        self.lam, self.linear, self.clamp = lam, linear, clamp
        self.limits = Schedule(alpha, beta, gamma)
        self.now = self.limits
        self.s, self.m = (Table(samples, classes, Form(dtype, top_k)) for _ in range(2))
        self.register_buffer("seen", torch.zeros(samples, dtype=torch.bool), persistent=False)
        self.all_seen = False  # if it is known

    def schedule(self, round: int, rounds: int, warmup_rounds: int | None = None) -> None:
        """Sets the weights of this round; without it they are constant."""
        warmup = default_warmup(rounds) if warmup_rounds is None else warmup_rounds
        self.now = schedule(round, rounds, warmup, *self.limits, linear=self.linear)
        self.all_seen = bool(self.seen.all())

    def forward(self, logits: Tensor, server_logits: Tensor, index: Tensor) -> Tensor:
        """Updates the rows of these samples, then gives the term to add to the loss."""
        p = logits.softmax(1)
        t = self.update(p, server_logits.softmax(1), index)
        return self.lam * agreement(clamped(p, self.clamp), t)

    @torch.no_grad()
    def update(self, p: Tensor, p_srv: Tensor, index: Tensor) -> Tensor:
        """Takes one visit of each sample into s and m and returns t."""
        seen = None if self.all_seen else self.seen[index]
        s = self._visit(self.s, p_srv, self.now.beta, index, seen)
        m = self._visit(self.m, p, self.now.gamma, index, seen)
        if seen is not None:
            self.seen[index] = True
        return mixture(s, m, self.now.alpha) if self.now.alpha else m

    def _visit(
        self, table: Table, p: Tensor, decay: float, index: Tensor, seen: Tensor | None
    ) -> Tensor:
        value = settled(p, self.clamp)
        if decay:
            value = running_average(table[index], value, decay, seen)
        table[index] = value
        return value

    def tables(self) -> Arrays:
        """A copy of what is remembered; belongs to the site."""
        return {name: array.detach().cpu().clone() for name, array in self._arrays().items()}

    def load_tables(self, tables: Mapping[str, Tensor]) -> None:
        """Takes over what `tables` gave; refuses tables of another size or form."""
        fill(self._arrays(), tables)
        self.all_seen = False

    def _arrays(self) -> Arrays:
        return {**self.s.arrays("s"), **self.m.arrays("m"), "seen": self.seen}
