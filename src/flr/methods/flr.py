"""FLR: Kim et al., arXiv 2402.05353, 2024.

*Revisiting Early-Learning Regularization: When Federated Learning Meets Noisy Labels.*
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import torch
import torch.nn.functional as F
from annotated_types import Ge, Le
from torch import Tensor

from flr.core.arrays import Arrays, with_prefix
from flr.core.contract import Batch, Client, Method, SamplePredictions
from flr.core.registry import register
from flr.core.traits import Declared, Traits
from flr.methods.shared.prediction_tables import TableFormat, rows_of
from flr.methods.shared.soft_labels import (
    BatchTargets,
    FrozenPredictions,
    LabelMixture,
    Schedule,
    agreement,
    clamped,
    default_warmup,
    mixture,
    running_average,
    schedule,
    update_soft_labels,
    visited,
)
from flr.methods.shared.warmup import endless_warmup

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


LATER = {"later": True}  # such an option came after results were kept, and does not rename them


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
    p, now = logits.softmax(1), Schedule(alpha, beta, gamma)
    s, m, t = update_soft_labels(s, m, p, server_logits.softmax(1), seen, now, clamp)
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

    State: two tables s and m (samples x classes) and a flag for each sample. Between two visits
    table_dtype = "float16" halves them, and top_k keeps the k largest entries of a row (all, where
    there are fewer classes) while its other classes share the rest evenly.
    Leaves the site: weights and the number of samples; the tables stay.
    Readings: warmup = "ce" (Algorithm 1) trains by CE alone until R_w and leaves the tables
    untouched; "schedule" has the term from round 0 on, where lam > 2 can end in a single class.
    linear = false keeps alpha constant.
    warmup_rounds defaults to min(50, R/6). The global model predicts in eval mode, on the same
    augmented batch; server_predictions = "round" has it predict at a sample's first visit of a
    round only, and reuses that in later epochs. No authors' code is public.
    """

    lam: Annotated[float, Ge(0)] = 2.0
    alpha: Annotated[float, Ge(0), Le(1)] = 0.9
    beta: Annotated[float, Ge(0), Le(1)] = 0.7
    gamma: Annotated[float, Ge(0), Le(1)] = 0.5
    linear: bool = True
    warmup: Literal["ce", "schedule"] = "ce"
    warmup_rounds: Annotated[int, Ge(0)] | None = None
    clamp: Annotated[float, Ge(0), Le(0.1)] = 1e-4
    server_predictions: Literal["batch", "round"] = field(default="batch", metadata=LATER)
    table_dtype: Literal["float32", "float16"] = field(default="float32", metadata=LATER)
    top_k: Annotated[int, Ge(1)] | None = None

    @cached_property
    def traits(self) -> Traits:
        """What a site keeps, and what it costs, depends on the options."""
        declared, average = self.format.declared, "running average of the {} model's predictions"
        kept = (
            *declared("flr.{net}.s", average.format("global")),
            *declared("flr.{net}.m", average.format("local")),
            Declared("flr.{net}.seen", ("samples",), "which samples were visited", torch.bool),
        )
        when = "after the warm-up" if self.warmup == "ce" else ""
        more = {
            "batch": ", and one more forward pass of the global model",
            "round": ", and one more forward pass over the site in each round",
        }
        return Traits(
            approach=("loss",),
            keeps=tuple(replace(table, when=when) for table in kept),
            cost=Traits.cost + (more[self.server_predictions] if self.alpha else ""),
        )

    @property
    def format(self) -> TableFormat:
        """How the tables are stored."""
        return TableFormat(getattr(torch, self.table_dtype), self.top_k)

    def check(self, config: Config) -> Iterable[str]:
        return endless_warmup(self.warmup_rounds, config.rounds, "a sixth")

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
                dtype=self.format.dtype,
                top_k=self.top_k,
            )
            prefix = f"flr.{net}."
            if kept := with_prefix(c.state, prefix):
                tables.load_tables({key.removeprefix(prefix): t for key, t in kept.items()})
            tables.schedule(c.round, c.rounds, warmup)
            c.scratch[prefix] = tables.to(c.data.x.device)
            if self.alpha and self.server_predictions == "round":
                c.scratch[prefix + "first"] = FrozenPredictions(
                    len(c.data), c.data.classes, self.format, c.data.x.device
                )

    def regularize(self, c: Client, net: int, logits: Tensor, b: Batch) -> Tensor | float:
        tables: LabelMixture | None = c.scratch.get(f"flr.{net}.")
        if tables is None:
            return 0.0
        p = logits.softmax(1)
        seen = visited(c, net, p, b)
        p_srv = self._server_predictions(c, net, seen) if self.alpha else seen.p
        t = seen.spread(tables.update(seen.p, p_srv, seen.index), b)
        return tables.term(p, t)

    @torch.no_grad()
    def _server_predictions(self, c: Client, net: int, seen: BatchTargets) -> Tensor:
        if self.server_predictions == "round":
            looks: FrozenPredictions = c.scratch[f"flr.{net}.first"]
            return looks.predictions(c.reference[net], seen.x, seen.index)
        logits: Tensor = c.reference[net](seen.x)
        return logits.softmax(1)

    def finish(self, c: Client) -> Arrays:
        for net in range(len(c.model)):
            prefix = f"flr.{net}."
            if prefix in c.scratch:
                c.state |= {prefix + key: t for key, t in c.scratch[prefix].tables().items()}
        return {}

    def sample_predictions(self, state: Arrays, classes: int) -> SamplePredictions | None:
        nets = [net for net in range(len(state)) if f"flr.{net}.seen" in state]
        if not nets:
            return None
        letters = {"global": "s", "local": "m"} if self.alpha else {"local": "m"}
        views = {
            view: torch.stack([rows_of(state, f"flr.{net}.{letter}", classes) for net in nets])
            for view, letter in letters.items()
        }
        seen = torch.stack([state[f"flr.{net}.seen"].bool() for net in nets]).all(0)
        return SamplePredictions({view: t.mean(0) for view, t in views.items()}, seen, "FLR")
