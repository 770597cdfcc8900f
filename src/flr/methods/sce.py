"""SCE: Wang et al., ICCV 2019.

*Symmetric Cross Entropy for Robust Learning with Noisy Labels.*
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch.nn.functional as F
from annotated_types import Ge, Lt
from torch import Tensor

from flr.core.contract import Batch, Client, Method
from flr.core.registry import register
from flr.core.traits import Traits
from flr.methods.mixup import as_rows


def reverse_ce(logits: Tensor, y: Tensor, A: float) -> Tensor:  # noqa: N803 - the paper's letter
    """mean_i -sum_c p_c log y_c with log 0 = A: -A * (1 - p_y); linear in y where y are rows."""
    p_y = (as_rows(y, logits.shape[1], logits.dtype) * logits.softmax(1)).sum(1)
    return -A * (1 - p_y).mean()


def sce_loss(
    logits: Tensor,
    y: Tensor,
    alpha: float,
    beta: float,
    A: float = -4.0,  # noqa: N803 - the paper's letter
) -> Tensor:
    """alpha * CE + beta * RCE."""
    return alpha * F.cross_entropy(logits, y) + beta * reverse_ce(logits, y, A)


@register("sce", title="SCE", paper="Wang et al., ICCV 2019", year=2019)
@dataclass(frozen=True)
class SCE(Method):
    """Cross-entropy plus its reverse, in which a wrong label can cost only so much.

    Equation:
        RCE = mean_i -sum_c p_ic log y_ic,  log 0 = A   (= -A * (1 - p_y))
        L   = alpha * CE + beta * RCE

    State: none.
    Leaves the site: weights and the number of samples.
    Differs: widely used PyTorch code clamps labels at 1e-4 before the logarithm, which is
    A = -9.21; log_zero = -9.210340371976182 gives that, the default A = -4 does not. For rows of
    labels RCE is taken linear in y, so that Mixup mixes it as it mixes CE.
    """

    alpha: Annotated[float, Ge(0)] = 0.1
    beta: Annotated[float, Ge(0)] = 1.0
    log_zero: Annotated[float, Lt(0)] = -4.0

    traits = Traits(approach=("loss",))

    def criterion(self, c: Client, logits: Tensor, b: Batch) -> Tensor:
        return sce_loss(logits, b.y, self.alpha, self.beta, self.log_zero)
