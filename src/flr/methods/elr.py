"""ELR: Liu et al., NeurIPS 2020.

*Early-Learning Regularization Prevents Memorization of Noisy Labels.*
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
import torch.nn.functional as F
from annotated_types import Ge, Le
from torch import Tensor

from flr.core.arrays import Arrays
from flr.core.contract import Batch, Client, Method, SamplePredictions
from flr.core.registry import register
from flr.core.traits import Declared, Traits
from flr.methods.shared.prediction_tables import rows_of
from flr.methods.shared.soft_labels import agreement, clamped, settled, visited

CLAMP = 1e-4


def elr_target(target: Tensor, p: Tensor, beta: float) -> Tensor:
    """target <- beta * target + (1 - beta) * p, p clamped and normalised, without gradient."""
    return beta * target + (1 - beta) * settled(p, CLAMP)


def elr_regularizer(p: Tensor, target: Tensor) -> Tensor:
    """mean_i log(1 - <target_i, p_i>), p clamped but not normalised again."""
    return agreement(clamped(p, CLAMP), target)


def elr_loss(
    logits: Tensor, y: Tensor, target: Tensor, beta: float, lam: float
) -> tuple[Tensor, Tensor]:
    """One visit: CE(z, y) + lam * mean log(1 - <target, p>), and the targets after it."""
    p = logits.softmax(1)
    target = elr_target(target, p, beta)
    return F.cross_entropy(logits, y) + lam * elr_regularizer(p, target), target


@register("elr", title="ELR", paper="Liu et al., NeurIPS 2020", year=2020)
@dataclass(frozen=True)
class ELR(Method):
    """Early-learning regularisation: pulls each prediction to its own running average, locally.

    Equation:
        target_i <- beta * target_i + (1 - beta) * p_i    (starts at 0)
        L = CE + lam * mean_i log(1 - <p_i, target_i>)

    State: one table target (samples x classes).
    Leaves the site: weights and the number of samples; the table stays.
    Differs: from FLR with alpha = 0; the target starts at zero, as in the authors' code, and not
    at the first prediction.
    """

    lam: Annotated[float, Ge(0)] = 4.0
    beta: Annotated[float, Ge(0), Le(1)] = 0.5

    traits = Traits(
        approach=("loss",),
        keeps=(
            Declared("elr.{net}.target", ("samples", "classes"), "running average of predictions"),
        ),
    )

    def begin(self, c: Client) -> None:
        for net in range(len(c.model)):
            stored = c.state.get(f"elr.{net}.target")
            fresh = torch.zeros(len(c.data), c.data.classes)
            c.scratch[f"elr.{net}"] = (fresh if stored is None else stored.clone()).to(
                c.data.x.device
            )

    def regularize(self, c: Client, net: int, logits: Tensor, b: Batch) -> Tensor | float:
        table = c.scratch[f"elr.{net}"]
        p = logits.softmax(1)
        seen = visited(c, net, p, b)
        table[seen.index] = elr_target(table[seen.index], seen.p, self.beta)
        target = seen.spread(table[seen.index], b)
        return self.lam * elr_regularizer(p, target)

    def finish(self, c: Client) -> Arrays:
        for net in range(len(c.model)):
            c.state[f"elr.{net}.target"] = c.scratch[f"elr.{net}"].cpu()
        return {}

    def sample_predictions(self, state: Arrays, classes: int) -> SamplePredictions | None:
        nets = [net for net in range(len(state)) if f"elr.{net}.target" in state]
        if not nets:
            return None
        rows = torch.stack([rows_of(state, f"elr.{net}.target", classes) for net in nets])
        visited = torch.stack([state[f"elr.{net}.target"].any(1) for net in nets]).all(0)
        return SamplePredictions({"local": rows.mean(0)}, visited, "ELR")
