"""FedAvg: McMahan et al., AISTATS 2017.

*Communication-Efficient Learning of Deep Networks from Decentralized Data.*
"""

from __future__ import annotations

from dataclasses import dataclass

from flr.core.contract import Method
from flr.core.registry import register


@register("fedavg", title="FedAvg", paper="McMahan et al., AISTATS 2017", year=2017)
@dataclass(frozen=True)
class FedAvg(Method):
    """Cross-entropy on the given labels; the server averages the weights by the number of samples.

    Equation:
        client   L = mean_i CE(y_i, p_i)
        server   w <- sum_k n_k / (sum_j n_j) * w_k

    Leaves the site: weights and the number of samples.
    """
