"""What a client remembers of each sample: running averages of predictions, and their mixture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from flr.core.arrays import Arrays
from flr.core.contract import Batch, Client
from flr.methods.shared.prediction_tables import PredictionTable, TableFormat, fill
from flr.models.inference import evaluating


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


def update_soft_labels(
    s: Tensor | None,
    m: Tensor | None,
    p: Tensor,
    p_srv: Tensor,
    seen: Tensor | None,
    now: Schedule,
    clamp: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """FLR's soft labels after one visit: s and m updated, and t = alpha s + (1 - alpha) m.

    `s` and `m` are not looked at where their weight is 0, and may then be None.
    """
    s_new, m_new = settled(p_srv, clamp), settled(p, clamp)
    if s is not None and now.beta:
        s_new = running_average(s, s_new, now.beta, seen)
    if m is not None and now.gamma:
        m_new = running_average(m, m_new, now.gamma, seen)
    return s_new, m_new, mixture(s_new, m_new, now.alpha) if now.alpha else m_new


def agreement(p: Tensor, t: Tensor) -> Tensor:
    """mean_i log(1 - <p_i, t_i>): falls without bound as prediction p moves to target t."""
    return torch.log1p(-(p * t).sum(1)).mean()


@dataclass(frozen=True)
class BatchTargets:
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


def visited(c: Client, net: int, p: Tensor, b: Batch) -> BatchTargets:
    """What enters the tables at a visit: predictions on unmixed inputs, each sample once.

    For a mixed batch this takes one more forward pass, in eval mode so that BatchNorm's statistics
    see mixed inputs only.

    Args:
        c: What every hook at a client is given.
        net: The number of the network, from 0.
        p: Its predictions on the batch.
        b: The batch, mixed or not.

    Example:
        >>> import torch
        >>> from types import SimpleNamespace
        >>> from flr.plugin import Batch, visited
        >>> plain = Batch(torch.rand(2, 4), torch.tensor([0, 1]), index=torch.tensor([7, 7]))
        >>> mixed = Batch(plain.x, plain.y, plain.index, None, plain, torch.tensor([1, 0]), 0.6)
        >>> client = SimpleNamespace(model=[torch.nn.Linear(4, 3)])
        >>> visited(client, 0, torch.rand(2, 3), mixed).index.tolist()  # one sample, twice
        [7]
    """
    if b.plain is None:
        return BatchTargets(p.detach(), b.x, b.index, b.index)
    index, rows = b.plain.index.unique(return_inverse=True)
    first = torch.full_like(index, len(rows)).scatter_reduce(
        0, rows, torch.arange(len(rows), device=rows.device), "amin"
    )
    x = b.plain.x[first]
    with torch.no_grad(), evaluating(c.model[net]):
        return BatchTargets(c.model[net](x).softmax(1), x, index, rows)


class FrozenPredictions:
    """What a frozen network said of each sample when it was asked first: later visits reuse it."""

    def __init__(self, samples: int, classes: int, form: TableFormat, device: torch.device) -> None:
        self.table = PredictionTable(samples, classes, form).to(device)
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


class LabelMixture(nn.Module):
    """FLR's regulariser for your own loop: lam * mean log(1 - <p, t>), t = alpha s + (1 - alpha) m.

    The tables s and m are buffers that stay out of `state_dict()`, so that they cannot slip to a
    server with the weights; save and restore them with `tables()` and `load_tables()`.

    Args:
        samples: How many samples the site has; a row of the tables for each.
        classes: How many classes there are.
        lam: Weight of the term.
        alpha: Weight of the global average s in the target t; see `schedule`.
        beta: How much of s is kept at a visit.
        gamma: How much of m, the local average, is kept at a visit.
        linear: Whether alpha grows linearly over the rounds.
        clamp: Predictions stay within [clamp, 1 - clamp].
        dtype: How a row is stored between two visits; arithmetic is in float32 or better.
        top_k: Keep the k largest entries of a row; its other classes share the rest evenly.

    Example:
        Three lines in a PyTorch or Flower client. `received` are logits of the received model,
        frozen, in eval mode, on the same (augmented) batch; `index` holds the samples' stable
        numbers, each once.

        >>> import torch
        >>> logits, received, y = torch.randn(8, 3), torch.randn(8, 3), torch.zeros(8).long()
        >>> index = torch.arange(8)
        >>> mixture = flr.LabelMixture(samples=100, classes=3)  # once; kept between rounds
        >>> mixture.schedule(0, rounds=20)                      # every round
        >>> loss = torch.nn.functional.cross_entropy(logits, y)
        >>> loss = loss + mixture(logits, received, index)      # every batch
        >>> int(mixture.seen.sum())
        8
    """

    s: PredictionTable  # running average of the global model's predictions
    m: PredictionTable  # of the local model's
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
        self.s, self.m = (
            PredictionTable(samples, classes, TableFormat(dtype, top_k)) for _ in range(2)
        )
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
        return self.term(p, self.update(p, server_logits.softmax(1), index))

    def term(self, p: Tensor, t: Tensor) -> Tensor:
        """The regulariser of Eq. 1: lam * mean log(1 - <p, t>)."""
        return self.lam * agreement(clamped(p, self.clamp), t)

    @torch.no_grad()
    def update(self, p: Tensor, p_srv: Tensor, index: Tensor) -> Tensor:
        """Takes one visit of each sample into s and m and returns t."""
        now, seen = self.now, None if self.all_seen else self.seen[index]
        s, m = (self.s[index] if now.beta else None), (self.m[index] if now.gamma else None)
        self.s[index], self.m[index], t = update_soft_labels(s, m, p, p_srv, seen, now, self.clamp)
        if seen is not None:
            self.seen[index] = True
        return t

    def tables(self) -> Arrays:
        """A copy of what is remembered; belongs to the site."""
        return {name: array.detach().cpu().clone() for name, array in self._arrays().items()}

    def load_tables(self, tables: Mapping[str, Tensor]) -> None:
        """Takes over what `tables` gave; refuses tables of another size or form."""
        fill(self._arrays(), tables)
        self.all_seen = False

    def _arrays(self) -> Arrays:
        return {**self.s.arrays("s"), **self.m.arrays("m"), "seen": self.seen}
