"""FLR: Kim et al., arXiv 2402.05353, 2024.

*Revisiting Early-Learning Regularization: When Federated Learning Meets Noisy Labels.*
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import torch
import torch.nn.functional as F
from annotated_types import Ge, Le
from torch import Tensor

from flr.arrays import Arrays
from flr.client.memory import (
    LabelMixture,
    agreement,
    clamped,
    default_warmup,
    mixture,
    remembered,
    running_average,
    schedule,
    settled,
)
from flr.contract import Batch, Client, Declared, Method
from flr.registry import register

if TYPE_CHECKING:
    from flr.config import Config

__all__ = [
    "FLR",
    "Visit",
    "agreement",
    "flr_gradient",
    "flr_loss",
    "mixture",
    "running_average",
    "schedule",
]


class Visit(NamedTuple):
    """One visit of a batch: the loss, its parts, and the rows of the tables after it."""

    loss: Tensor
    ce: Tensor
    reg: Tensor
    s: Tensor
    m: Tensor
    t: Tensor


def flr_loss(
    logits: Tensor,
    server_logits: Tensor,
    y: Tensor,
    s: Tensor,
    m: Tensor,
    seen: Tensor,
    *,
    alpha: float,
    beta: float,
    gamma: float,
    lam: float,
    clamp: float = 1e-4,
) -> Visit:
    """Eq. 1: mean CE(y, p) + lam * mean log(1 - <p, t>); s, m, t updated first, held constant."""
    p = logits.softmax(1)
    s = running_average(s, settled(server_logits.softmax(1), clamp), beta, seen)
    m = running_average(m, settled(p, clamp), gamma, seen)
    t = mixture(s, m, alpha)
    ce, reg = F.cross_entropy(logits, y), agreement(clamped(p, clamp), t)
    return Visit(ce + lam * reg, ce, reg, s, m, t)


def flr_gradient(p: Tensor, y: Tensor, t: Tensor, lam: float) -> Tensor:
    """Eq. 2: dL/dz_c = p_c - y_c + lam * p_c * (<p, t> - t_c) / (1 - <p, t>), y one-hot."""
    inner = (p * t).sum(1, keepdim=True)
    return p - y + lam * p * (inner - t) / (1 - inner)


@register(
    "flr",
    title="FLR",
    paper="Kim et al., arXiv 2402.05353, 2024",
    year=2024,
    aliases={
        "slr": (
            "FLR with the global running average only: t = s.",
            {"alpha": 1.0, "linear": False},
        ),
        "global": (
            "The paper's name for slr in its memorization table.",
            {"alpha": 1.0, "linear": False},
        ),
        "local": ("FLR with the local running average only: t = m.", {"alpha": 0.0}),
        "er": (
            "Entropy-like regularisation: t is the current prediction.",
            {"alpha": 0.0, "gamma": 0.0},
        ),
    },
)
@dataclass(frozen=True)
class FLR(Method):
    """Pulls each prediction to a blend of running averages of global and local predictions.

    Equation:
        s_i <- beta * s_i + (1 - beta) * p_i^srv     global (first visit: p_i^srv)
        m_i <- gamma * m_i + (1 - gamma) * p_i       local (first visit: p_i)
        t_i  = alpha * s_i + (1 - alpha) * m_i       mixture, held constant
        L    = mean_i CE(y_i, p_i) + lam * mean_i log(1 - <p_i, t_i>)
        alpha(r) = alpha * r / R
        beta(r)  = 0 before R / 2
        gamma(r) = 0 before R_w (warmup_rounds)

    State: two tables s and m (samples x classes) and a flag for each sample.
    Leaves the site: weights and the number of samples; the tables stay.
    Readings: warmup = "schedule" has the term from round 0 on; "ce" (Algorithm 1) trains by CE
    alone until R_w and leaves the tables untouched. linear = false keeps alpha constant.
    warmup_rounds defaults to min(50, R/6). The global model predicts in eval mode, on the same
    augmented batch. No authors' code is public.
    """

    lam: Annotated[float, Ge(0)] = 2.0
    alpha: Annotated[float, Ge(0), Le(1)] = 0.9
    beta: Annotated[float, Ge(0), Le(1)] = 0.7
    gamma: Annotated[float, Ge(0), Le(1)] = 0.5
    linear: bool = True
    warmup: Literal["schedule", "ce"] = "schedule"
    warmup_rounds: Annotated[int, Ge(0)] | None = None
    clamp: Annotated[float, Ge(0), Le(0.1)] = 1e-4

    approach = ("loss",)
    keeps = (
        Declared(
            "flr.{net}.s",
            ("samples", "classes"),
            "running average of the global model's predictions",
        ),
        Declared(
            "flr.{net}.m",
            ("samples", "classes"),
            "running average of the local model's predictions",
        ),
        Declared("flr.{net}.seen", ("samples",), "which samples were visited", torch.bool),
    )
    cost = (
        "one forward and one backward pass per batch, and one more forward pass of the global model"
    )

    def check(self, config: Config) -> Iterable[str]:
        if (self.warmup_rounds or 0) >= config.rounds:
            yield (
                f"warmup_rounds = {self.warmup_rounds} with rounds = {config.rounds}: the warm-up "
                f"would never end. "
                "Lower warmup_rounds, or leave it out for a sixth of the rounds"
            )

    def begin(self, c: Client) -> None:
        warmup = default_warmup(c.rounds) if self.warmup_rounds is None else self.warmup_rounds
        if self.warmup == "ce" and c.round < warmup:
            return
        for net in range(len(c.model)):
            tables = LabelMixture(
                len(c.data),
                c.data.classes,
                lam=self.lam,
                alpha=self.alpha,
                beta=self.beta,
                gamma=self.gamma,
                linear=self.linear,
                clamp=self.clamp,
            )
            tables.schedule(c.round, c.rounds, warmup)
            prefix = f"flr.{net}."
            if prefix + "s" in c.state:
                tables.load_tables({key: c.state[prefix + key] for key in ("s", "m", "seen")})
            c.memory[prefix] = tables.to(c.data.x.device)

    def regularise(self, c: Client, net: int, logits: Tensor, b: Batch) -> Tensor | float:
        tables = c.memory.get(f"flr.{net}.")
        if tables is None:
            return 0.0
        seen = remembered(c, net, logits, b)
        with torch.no_grad():
            p_srv = c.reference[net](seen.x).softmax(1) if self.alpha else seen.p
        t = seen.spread(tables.update(seen.p, p_srv, seen.index), b)
        return self.lam * agreement(clamped(logits.softmax(1), self.clamp), t)

    def finish(self, c: Client) -> Arrays:
        for net in range(len(c.model)):
            prefix = f"flr.{net}."
            if prefix in c.memory:
                c.state |= {prefix + key: t for key, t in c.memory[prefix].tables().items()}
        return {}
