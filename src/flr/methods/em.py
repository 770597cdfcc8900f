"""EM: Grandvalet and Bengio, NeurIPS 2004.

*Semi-supervised Learning by Entropy Minimization.*
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge
from torch import Tensor

from flr.core.contract import Batch, Client, Method
from flr.core.registry import register
from flr.core.traits import Traits


def entropy(logits: Tensor) -> Tensor:
    """mean_i H(p_i), H(p) = -sum_c p_c log p_c."""
    log_p = logits.log_softmax(1)
    return -(log_p.exp() * log_p).sum(1).mean()


@register(
    "em", title="Entropy minimisation", paper="Grandvalet and Bengio, NeurIPS 2004", year=2004
)
@dataclass(frozen=True)
class EntropyMinimization(Method):
    """Adds the entropy of the predictions to any loss, which makes the network decide.

    Equation:
        L = CE + lam * mean_i H(p_i),   H(p) = -sum_c p_c log p_c

    State: none.
    Leaves the site: weights and the number of samples.
    Differs: the original is for unlabelled data; here, as in the FLR paper's comparison, it is
    taken on all samples.
    """

    lam: Annotated[float, Ge(0)] = 4.0

    traits = Traits(approach=("loss",))

    def regularize(self, c: Client, net: int, logits: Tensor, b: Batch) -> Tensor | float:
        return self.lam * entropy(logits)
