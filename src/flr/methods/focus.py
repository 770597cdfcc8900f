"""FOCUS: Chen et al., arXiv 2001.11359, 2020.

*FOCUS: Dealing with Label Quality Disparity in Federated Learning.*
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import torch
import torch.nn.functional as F
from annotated_types import Ge
from torch import Tensor

from flr.aggregate.common import weighted_average
from flr.core.arrays import Arrays, with_prefix
from flr.core.contract import MODEL, Client, Method, Reply, Server, Task
from flr.core.registry import register
from flr.core.traits import Declared, Traits
from flr.models.inference import method_logits

WORST = 1e6  # stands for a loss that is not a number


def credibility(LS: Tensor, LL: Tensor, alpha: float) -> Tensor:  # noqa: N803 - the paper's letters
    """C_k = 1 - e^(alpha E_k) / sum_j e^(alpha E_j), E_k = LS_k + LL_k."""
    return 1 - torch.softmax(alpha * (LS + LL), 0)


def focus_weights(n: Tensor, C: Tensor) -> Tensor:  # noqa: N803
    """n_k C_k / sum_j n_j C_j; by n_k alone where no client is credible."""
    weights = n * C
    weights = weights if weights.sum() > 0 else n
    return weights / weights.sum()


@register("focus", title="FOCUS", paper="Chen et al., arXiv 2001.11359, 2020", year=2020)
@dataclass(frozen=True)
class Focus(Method):
    """Weighs clients by how well their model does on clean samples and the global one on theirs.

    Equation:
        LS_k = CE of client k's model on the server's clean samples
        LL_k = CE of the global model on the data of client k
        E_k  = LS_k + LL_k
        C_k  = 1 - exp(alpha E_k) / sum_j exp(alpha E_j)
        w   <- sum_k n_k C_k / (sum_j n_j C_j) * w_k     C of the last round

    Needs [scenario] benchmark. Sums are over the clients of a round; one that was not asked yet
    counts as an average one.

    State: none; the server keeps C.
    Leaves the site: weights, the number of samples, and one loss of the global model.
    Differs: no authors' code is public; alpha = 1 is a guess.
    """

    alpha: Annotated[float, Ge(0)] = 1.0

    traits = Traits(
        approach=("aggregation",),
        sends=(Declared("focus.loss", (), "loss of the global model on the site's data", least=0),),
        cost=(
            "one forward and one backward pass per batch, one more forward pass over the site, "
            "and the server's clean samples through every client's model"
        ),
        individual=True,
        aggregates=True,
        supervised=True,
    )

    def begin(self, c: Client) -> None:
        c.scratch["focus.loss"] = self.measure(c)

    def finish(self, c: Client) -> Arrays:
        return dict(c.scratch["focus.loss"])

    def tasks(self) -> dict[str, Callable[[Client], Arrays]]:
        return {"focus-loss": self.measure}  # on the clean samples only

    @torch.no_grad()
    def measure(self, c: Client) -> Arrays:
        """Mean CE of the received model on a site, in eval mode."""
        logits = method_logits(c.method, c.model, c.data.x)
        return {"focus.loss": F.cross_entropy(logits, c.data.y).cpu().clamp(max=WORST)}

    def start(self, s: Server) -> None:
        average = 1 - 1 / s.per_round
        s.state["focus.credibility"] = torch.full((s.clients,), average, dtype=torch.float64)

    def reduce(self, s: Server, task: Task, replies: list[Reply]) -> None:
        asked = torch.tensor([reply.client for reply in replies])
        n = torch.tensor([float(reply.examples) for reply in replies], dtype=torch.float64)
        C = s.state["focus.credibility"]  # noqa: N806
        weights = focus_weights(n, C[asked]).tolist()
        for name, previous in with_prefix(s.arrays, MODEL).items():
            values = [reply.arrays[name] for reply in replies]
            s.arrays[name] = weighted_average(values, weights).to(previous.dtype)
        if len(replies) > 1:  # one alone says nothing about its rank among others
            own = torch.stack([reply.arrays["focus.loss"].double() for reply in replies])
            clean = torch.stack([self.on_benchmark(s, reply) for reply in replies])
            s.state["focus.credibility"] = C.index_put(
                (asked,), credibility(clean, own, self.alpha)
            )
        s.round += 1

    def on_benchmark(self, s: Server, reply: Reply) -> Tensor:
        """LS_k."""
        loss = s.on_benchmark("focus-loss", with_prefix(reply.arrays, MODEL))["focus.loss"]
        return loss.double().nan_to_num(nan=WORST)
