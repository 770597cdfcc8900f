"""What a client remembers of each sample: running averages of predictions, and their mixture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from flr.arrays import Arrays
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


def running_average(previous: Tensor, value: Tensor, decay: float, seen: Tensor) -> Tensor:
    """decay * previous + (1 - decay) * value; a sample's first value is taken as it is."""
    return torch.where(seen[:, None], decay * previous + (1 - decay) * value, value)


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
    """What enters the tables: the predictions on unmixed inputs, each sample once.

    For a mixed batch this takes one more forward pass, in eval mode so that BatchNorm's statistics
    see mixed inputs only.
    """
    if b.plain is None:
        return Remembered(logits.detach().softmax(1), b.x, b.index, b.index)
    index, rows = b.plain.index.unique(return_inverse=True)
    first = torch.full_like(index, len(rows)).scatter_reduce(
        0, rows, torch.arange(len(rows), device=rows.device), "amin"
    )
    x = b.plain.x[first]
    with torch.no_grad(), evaluating(c.model[net]):
        return Remembered(c.model[net](x).softmax(1), x, index, rows)


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
    batch; `index` holds the samples' stable numbers. The tables s and m are buffers that stay out
    of `state_dict()`, so that they cannot slip to a server with the weights; save and restore them
    with `tables()` and `load_tables()`.
    """

    s: Tensor  # samples x classes: running average of the global model's predictions
    m: Tensor  # samples x classes: of the local model's
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
    ) -> None:
        super().__init__()
        self.lam, self.linear, self.clamp = lam, linear, clamp
        self.limits = Schedule(alpha, beta, gamma)
        self.now = self.limits
        for name in ("s", "m"):
            self.register_buffer(name, torch.zeros(samples, classes, dtype=dtype), persistent=False)
        self.register_buffer("seen", torch.zeros(samples, dtype=torch.bool), persistent=False)

    def schedule(self, round: int, rounds: int, warmup_rounds: int | None = None) -> None:
        """Sets the weights of this round; without it they are constant."""
        warmup = default_warmup(rounds) if warmup_rounds is None else warmup_rounds
        self.now = schedule(round, rounds, warmup, *self.limits, linear=self.linear)

    def forward(self, logits: Tensor, server_logits: Tensor, index: Tensor) -> Tensor:
        """Updates the rows of these samples, then gives the term to add to the loss."""
        p = logits.softmax(1)
        t = self.update(p, server_logits.softmax(1), index)
        return self.lam * agreement(clamped(p, self.clamp), t)

    @torch.no_grad()
    def update(self, p: Tensor, p_srv: Tensor, index: Tensor) -> Tensor:
        """Takes one visit of each sample into s and m and returns t."""
        seen = self.seen[index]
        s = running_average(self.s[index], settled(p_srv, self.clamp), self.now.beta, seen)
        m = running_average(self.m[index], settled(p, self.clamp), self.now.gamma, seen)
        self.s[index], self.m[index], self.seen[index] = s, m, True
        return mixture(s, m, self.now.alpha)

    def tables(self) -> Arrays:
        """A copy of what is remembered; belongs to the site."""
        return {name: getattr(self, name).detach().cpu().clone() for name in ("s", "m", "seen")}

    def load_tables(self, tables: Mapping[str, Tensor]) -> None:
        """Takes over what `tables` gave; refuses tables of another size."""
        for name in ("s", "m", "seen"):
            mine, theirs = getattr(self, name), tables[name]
            if mine.shape != theirs.shape:
                raise ValueError(
                    f"Expected a table {name} of shape {tuple(mine.shape)}, got "
                    f"{tuple(theirs.shape)}: "
                    "the tables belong to another data set; start with new ones."
                )
            mine.copy_(theirs)
