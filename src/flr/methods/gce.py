"""GCE: Zhang and Sabuncu, NeurIPS 2018.

*Generalized Cross Entropy Loss for Training Deep Neural Networks with Noisy Labels.*
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from annotated_types import Ge, Gt, Le, Lt
from torch import Tensor

from flr.core.arrays import Arrays
from flr.core.contract import Batch, Client, Method
from flr.core.registry import register
from flr.core.traits import Declared, Traits
from flr.methods.mixup import as_rows
from flr.models.inference import method_logits


def lq(logits: Tensor, y: Tensor, q: float) -> Tensor:
    """L_q(p_y) = (1 - p_y^q) / q of each sample; linear in y where y are rows.

    The power goes by the logarithm: its gradient stays finite where p underflows to 0.
    """
    values = (1 - torch.exp(q * logits.log_softmax(1))) / q
    return (as_rows(y, logits.shape[1], logits.dtype) * values).sum(1)


def gce_loss(logits: Tensor, y: Tensor, w: Tensor, q: float, k: float) -> Tensor:
    """mean_i w_i * (L_q(p_y) - L_q(k)); the mean counts pruned samples too."""
    constant: float = (1 - k**q) / q
    return (w * (lq(logits, y, q) - constant)).mean()


def gce_weights(logits: Tensor, y: Tensor, k: float) -> Tensor:
    """w_i = 1[p_y > k]."""
    p = (as_rows(y, logits.shape[1], logits.dtype) * logits.softmax(1)).sum(1)
    return p > k


def prunings_due(r: int, R: int) -> int:  # noqa: N803 - the paper's letter
    """How many prunings there were by round r: one at R/3, then one every R/12 (at least 1)."""
    if 3 * r < R:
        return 0
    return 1 + (12 * r - 4 * R) // max(R, 12)


@register("gce", title="GCE (truncated)", paper="Zhang and Sabuncu, NeurIPS 2018", year=2018)
@dataclass(frozen=True)
class GCE(Method):
    """Between cross-entropy (q near 0) and absolute error (q = 1); drops improbable labels later.

    Equation:
        L_q(p) = (1 - p^q) / q
        L      = mean_i w_i * (L_q(p_y) - L_q(kappa))
        w_i    = 1 until round R/3, then 1[p_y^srv > kappa],
                 renewed every R/12 rounds

    State: one flag w for each sample, and the number of the last pruning.
    Leaves the site: weights and the number of samples; the flags stay.
    Differs: the reference code prunes by the model with the best test accuracy, which leaks; here
    the received global model decides, in eval mode, on data without augmentation. A client that was
    not asked when a pruning was due does it when it is asked next. truncate = false keeps w = 1.
    """

    q: Annotated[float, Gt(0), Le(1)] = 0.7
    kappa: Annotated[float, Ge(0), Lt(1)] = 0.1
    truncate: bool = True

    traits = Traits(
        approach=("loss", "selection"),
        keeps=(
            Declared("gce.w", ("samples",), "which samples count", torch.bool),
            Declared("gce.prunings", (), "how many prunings were due by then", torch.int64),
        ),
        cost=(
            "one forward and one backward pass per batch, "
            "and one more forward pass over the site where a pruning is due"
        ),
    )

    def begin(self, c: Client) -> None:
        w = c.state.get("gce.w", torch.ones(len(c.data), dtype=torch.bool)).to(c.data.x.device)
        done = int(c.state.get("gce.prunings", torch.tensor(0)))
        due = prunings_due(c.round, c.rounds) if self.truncate else 0
        if due > done:
            w = gce_weights(method_logits(c.method, c.reference, c.data.x), c.data.y, self.kappa)
        c.scratch["gce.w"], c.scratch["gce.prunings"] = w, max(due, done)

    def criterion(self, c: Client, logits: Tensor, b: Batch) -> Tensor:
        def part(y: Tensor, index: Tensor) -> Tensor:
            return gce_loss(logits, y, c.scratch["gce.w"][index], self.q, self.kappa)

        if b.plain is None or b.partner is None:
            return part(b.y, b.index)
        # a pruned sample takes its share of a mixed row with it, and no more
        y, index, partner = b.plain.y, b.plain.index, b.partner[: len(logits)]
        first = part(y[: len(logits)], index[: len(logits)])
        return b.weight * first + (1 - b.weight) * part(y[partner], index[partner])

    def finish(self, c: Client) -> Arrays:
        c.state["gce.w"] = c.scratch["gce.w"].cpu()
        c.state["gce.prunings"] = torch.tensor(c.scratch["gce.prunings"])
        return {}
