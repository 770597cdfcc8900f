"""Co-teaching: Han et al., NeurIPS 2018.

*Co-teaching: Robust Training of Deep Neural Networks with Extremely Noisy Labels.*
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

import torch
import torch.nn.functional as F
from annotated_types import Ge, Gt, Lt
from torch import Tensor

from flr.core.contract import Batch, Client, Method
from flr.core.registry import register
from flr.core.traits import Traits
from flr.methods.shared.selection import forget_rate_at, noise_of, small_loss, take

__all__ = ["CoTeaching", "Exchange", "exchange", "forget_rate_at", "small_loss"]


class Exchange(NamedTuple):
    """What each network chose of a batch, and its loss on what the other one chose."""

    chosen1: Tensor  # rows, smallest loss first
    chosen2: Tensor
    loss1: Tensor
    loss2: Tensor


def exchange(logits1: Tensor, logits2: Tensor, y: Tensor, forget_rate: float) -> Exchange:
    """Each network keeps its small losses; the mean CE of each is over the other one's choice."""
    chosen1, chosen2 = choices((logits1, logits2), y, forget_rate)
    loss1 = F.cross_entropy(logits1[chosen2], y[chosen2])
    loss2 = F.cross_entropy(logits2[chosen1], y[chosen1])
    return Exchange(chosen1, chosen2, loss1, loss2)


def choices(logits: tuple[Tensor, Tensor], y: Tensor, forget_rate: float) -> tuple[Tensor, Tensor]:
    """The rows that each network keeps."""
    one, two = (
        small_loss(F.cross_entropy(z.detach(), y, reduction="none"), forget_rate) for z in logits
    )
    return one, two


@register("coteaching", title="Co-teaching", paper="Han et al., NeurIPS 2018", year=2018)
@dataclass(frozen=True)
class CoTeaching(Method):
    """Two networks; each is trained on the samples of a batch that the other finds easy.

    Equation:
        S_j  = the int((1 - F(r)) b) samples of smallest CE of network j
        L    = mean_{i in S_2} CE(y_i, p1_i) + mean_{i in S_1} CE(y_i, p2_i)
        F(r) = linspace(0, forget_rate^exponent, T_k)_r, then forget_rate

    Both networks are averaged, each by itself; network 1 is the one that is tested.
    Leaves the site: weights of both networks and the number of samples.
    Readings: forget_rate is the share of wrong labels, a number (the authors' choice) or estimated
    by the received networks at the site: "estimate", the share of the larger-loss component of a
    mixture of two, which takes what is hard for wrong, or "confident", the share of labels that
    another class is confidently preferred to.
    T_k (gradual) counts rounds and defaults to max(10, R/20). Regularisers of other methods see
    the whole batch: they use no labels.
    Differs: the authors divide the mean by the number of kept samples once more, which
    SGD does not forgive. At least one sample is kept.
    """

    forget_rate: Annotated[float, Ge(0), Lt(1)] | Literal["estimate", "confident"] = 0.2
    gradual: Annotated[int, Ge(1)] | None = None
    exponent: Annotated[float, Gt(0)] = 1.0

    traits = Traits(
        approach=("selection",),
        networks=2,
        cost="one forward and one backward pass of both networks per batch",
    )

    def begin(self, c: Client) -> None:
        rate = noise_of(c, self.forget_rate)
        gradual = max(10, c.rounds // 20) if self.gradual is None else self.gradual
        c.scratch["coteaching.forget"] = forget_rate_at(c.round, rate, gradual, self.exponent)

    def loss(self, c: Client, b: Batch) -> Tensor:
        logits = (c.model[0](b.x), c.model[1](b.x))
        chosen = choices(logits, b.y, c.scratch["coteaching.forget"])
        total = torch.zeros((), device=b.x.device)
        for net in range(2):
            rows = chosen[1 - net]
            total = total + c.method.criterion(c, logits[net][rows], take(b, rows))
            total = total + c.method.regularize(c, net, logits[net], b)
        return total
