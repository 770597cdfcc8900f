"""FedNoRo: Wu et al., IJCAI 2023.

*FedNoRo: Towards Noise-Robust Federated Learning by Addressing Class Imbalance and Label Noise
Heterogeneity.*
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import torch
from annotated_types import Ge, Gt, Le
from torch import Tensor

from flr.core.contract import Batch, Client
from flr.core.registry import register
from flr.core.traits import Traits
from flr.methods.shared.noisy_clients import (
    RECEIVES,
    SENDS,
    TwoStages,
    adjusted_ce,
    distillation,
    is_noisy,
    sigmoid_ramp,
)

if TYPE_CHECKING:
    from flr.config import Config


def fednoro_loss(logits: Tensor, soft: Tensor, y: Tensor, counts: Tensor, w: float) -> Tensor:
    """w mean_i KL(s_i || exp a_i) + (1 - w) mean_i -a_{i,y}; what noisy clients minimise."""
    return w * distillation(logits, soft, counts).mean() + (1 - w) * adjusted_ce(logits, y, counts)


@register("fednoro", title="FedNoRo", paper="Wu et al., IJCAI 2023", year=2023)
@dataclass(frozen=True)
class FedNoRo(TwoStages):
    """Finds noisy clients by their losses in each class; they also learn from the global model.

    Equation:
        pi_c = n_kc / n_k;  a = log softmax(z + log pi)
        L    = mean_i -a_{i,y}                      clean clients, stage 1
        s    = softmax(z_srv / temperature)
        L    = w(r) mean_i KL(s_i || exp a_i) + (1 - w(r)) mean_i -a_{i,y}
                                                    noisy clients, stage 2
        w(r) = weight exp(-5 (1 - (r - T1) / (ramp_end - T1))^2)
        noisy: larger of two Gaussians over the clients' mean losses of
               each class, scaled to [0, 1]; majority of 9, once after T1
        w   <- sum_k n_k e^{-D_k} w_k / sum_k n_k e^{-D_k}     stage 2
        D_k  = min over clean j of sum over tensors |w_k - w_j|, over its
               maximum; 0 for clean k

    T1 (warmup_rounds) is by default a sixth of the rounds, ramp_end 0.49 of them. A round of one
    kind of clients is averaged as by FedAvg. Absent classes have no gradient.
    State: none; the server keeps which clients are noisy.
    Leaves the site: weights, the number of samples, and once the mean loss of each given class.
    Differs: losses of images without augmentation; who did not answer counts as clean; the last
    incomplete batch is kept.
    """

    ramp_end: Annotated[int, Ge(1)] | None = None
    weight: Annotated[float, Ge(0), Le(1)] = 0.8
    temperature: Annotated[float, Gt(0)] = 0.8

    traits = Traits(
        approach=("loss", "aggregation"),
        sends=SENDS,
        receives=RECEIVES,
        cost=(
            "one forward and one backward pass per batch, at noisy clients one more forward pass "
            "of the global model; once a pass over the site"
        ),
        individual=True,
        aggregates=True,
        note="Two groups are always found: without noise some clients are called noisy as well.",
    )

    def check(self, config: Config) -> Iterable[str]:
        yield from super().check(config)
        first = self.warmup(config.rounds)
        if self.ramp_end is not None and self.ramp_end <= first:
            yield (
                f"ramp_end = {self.ramp_end} is not after the warm-up of {first} rounds. "
                f"Use ramp_end = {first + 1} or more, or leave it out"
            )

    def weight_at(self, r: int, rounds: int) -> float:
        """w(r)."""
        begin = self.warmup(rounds)
        end = max(begin + 1, round(0.49 * rounds)) if self.ramp_end is None else self.ramp_end
        return sigmoid_ramp(r, begin, end, self.weight)

    def loss(self, c: Client, b: Batch) -> Tensor:
        if not is_noisy(c):
            return super().loss(c, b)
        logits = c.model[0](b.x)
        with torch.no_grad():
            soft = (c.reference[0](b.x) / self.temperature).softmax(1)
        w = self.weight_at(c.round, c.rounds)
        total = fednoro_loss(logits, soft, b.y, c.scratch["noisy.counts"], w)
        return total + c.method.regularize(c, 0, logits, b)
