"""FedProx: Li et al., MLSys 2020.

*Federated Optimization in Heterogeneous Networks.*
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

import torch
from annotated_types import Ge
from torch import Tensor

from flr.core.contract import Client, Method
from flr.core.registry import register


def proximal(w: Iterable[Tensor], w_srv: Iterable[Tensor], mu: float) -> Tensor:
    """mu/2 * |w - w_srv|^2 over all parameters."""
    squares = [(a - b).square().sum() for a, b in zip(w, w_srv, strict=True)]
    return mu / 2 * torch.stack(squares).sum()


@register("fedprox", title="FedProx", paper="Li et al., MLSys 2020", year=2020)
@dataclass(frozen=True)
class FedProx(Method):
    """Holds the local weights near the received ones; stacks on any loss.

    Equation:
        L = CE + mu/2 * |w - w_srv|^2    (parameters, not buffers)

    State: none.
    Leaves the site: weights and the number of samples.
    Differs: the norm is squared, as in the paper and the authors' code; FNBench and FedCorr have
    it un-squared.
    """

    mu: Annotated[float, Ge(0)] = 0.001

    def penalty(self, c: Client, net: int) -> Tensor | float:
        return proximal(c.model[net].parameters(), c.reference[net].parameters(), self.mu)
