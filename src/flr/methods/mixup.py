"""Mixup: Zhang et al., ICLR 2018.

*mixup: Beyond Empirical Risk Minimization.*
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
import torch.nn.functional as F
from annotated_types import Ge
from torch import Tensor

from flr.core.contract import Batch, Client, Method
from flr.core.registry import register
from flr.core.traits import Traits


def as_rows(y: Tensor, classes: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Labels as rows of probabilities; rows stay as they are."""
    return (F.one_hot(y, classes) if y.dim() == 1 else y).to(dtype)


def mix(x: Tensor, partner: Tensor, l: float) -> Tensor:  # noqa: E741 - the paper's letter
    """l * x_i + (1 - l) * x_partner(i); for inputs and for rows of labels alike."""
    return l * x + (1 - l) * x[partner]


def draw_weight(alpha: float, rng: torch.Generator) -> float:
    """l ~ Beta(alpha, alpha); 1 (no mixing) if alpha is 0."""
    seed = int(torch.randint(2**31, (), generator=rng))
    return float(np.random.default_rng(seed).beta(alpha, alpha)) if alpha > 0 else 1.0


def mixed(b: Batch, classes: int, partner: Tensor, l: float) -> Batch:  # noqa: E741
    """The batch with inputs and labels mixed; it remembers what it was made of."""
    y = mix(as_rows(b.y, classes, b.x.dtype), partner, l)
    return Batch(mix(b.x, partner, l), y, b.index, b.networks, plain=b, partner=partner, weight=l)


@register("mixup", title="Mixup", paper="Zhang et al., ICLR 2018", year=2018)
@dataclass(frozen=True)
class Mixup(Method):
    """Trains on blends of two samples and of their labels; stacks on any loss.

    Equation:
        l ~ Beta(alpha, alpha), one for each batch; j = permutation(i)
        x~_i = l * x_i + (1 - l) * x_j
        L    = l * CE(y_i, p(x~_i)) + (1 - l) * CE(y_j, p(x~_i))

    State: none.
    Leaves the site: weights and the number of samples.
    Differs: the labels are mixed, not the losses: the same for every loss that is linear in the
    label, and what lets other methods stack on it. FLR and ELR then update their tables on the
    unmixed batch and mix their targets alike.
    """

    alpha: Annotated[float, Ge(0)] = 1.0

    traits = Traits(approach=("loss",), changes_inputs=True)

    def batches(self, c: Client, epoch: int) -> Iterator[Batch]:
        for b in c.make_batches(c):
            weight = draw_weight(self.alpha, c.rng)
            partner = torch.randperm(len(b.index), generator=c.rng).to(b.index.device)
            yield mixed(b, c.data.classes, partner, weight)
