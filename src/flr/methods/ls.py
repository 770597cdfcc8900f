"""LS: Szegedy et al., CVPR 2016; NLS: Wei et al., ICML 2022.

*Rethinking the Inception Architecture for Computer Vision* and *To Smooth or Not? When Label
Smoothing Meets Noisy Labels.*
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch.nn.functional as F
from annotated_types import Gt, Lt
from torch import Tensor

from flr.core.contract import Batch, Client, Method
from flr.core.registry import register
from flr.core.traits import Traits


def ls_loss(logits: Tensor, y: Tensor, epsilon: float) -> Tensor:
    """(1 - epsilon) * CE + epsilon * mean_ic(-log p_ic); epsilon may be negative."""
    uniform = -logits.log_softmax(1).mean()
    return (1 - epsilon) * F.cross_entropy(logits, y) + epsilon * uniform


@register(
    "ls",
    title="Label smoothing",
    paper="Szegedy et al., CVPR 2016",
    year=2016,
    aliases={
        "nls": (
            "Negative label smoothing (Wei et al., ICML 2022): epsilon = -0.05.",
            {"epsilon": -0.05},
        )
    },
)
@dataclass(frozen=True)
class LabelSmoothing(Method):
    """Moves a share epsilon of each label to all classes alike; a negative share sharpens it.

    Equation:
        L = (1 - epsilon) * CE + epsilon * mean_c(-log p_c)

    State: none.
    Leaves the site: weights and the number of samples.
    Differs: nothing from the authors' loss without their warm-up. With epsilon < 0 it has no lower
    bound; nothing is clipped, as in their code.
    """

    epsilon: Annotated[float, Gt(-1), Lt(1)] = 0.1

    traits = Traits(approach=("loss",))

    def criterion(self, c: Client, logits: Tensor, b: Batch) -> Tensor:
        return ls_loss(logits, b.y, self.epsilon)
