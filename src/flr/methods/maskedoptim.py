"""MaskedOptim: Jiang et al., arXiv 2506.02079, 2025.

*Robust Federated Learning against Noisy Clients via Masked Optimization.*
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
import torch.nn.functional as F
from annotated_types import Ge, Gt, Le
from torch import Tensor

from flr.core.arrays import Arrays, with_prefix
from flr.core.contract import MODEL, Batch, Client, Reply, Server
from flr.core.registry import register
from flr.core.traits import Declared, Traits
from flr.methods.shared.label_variables import LabelVariables
from flr.methods.shared.noisy_clients import RECEIVES, SENDS, TwoStages, is_noisy

LABELS = "maskedoptim.labels"


def easy_mask(losses: Tensor, share: float) -> Tensor:
    """1 for the int(share * b) samples of smallest loss in a batch, 0 for the others (b)."""
    easy = losses.argsort(stable=True)[: int(share * len(losses))]
    return torch.zeros_like(losses).index_fill(0, easy, 1.0)


def blended(received: Tensor, trained: Tensor, share: float) -> Tensor:
    """share * received + (1 - share) * trained, in the same type: integers are truncated."""
    return (share * received + (1 - share) * trained).to(trained.dtype)


def geometric_median(values: Tensor, iterations: int = 10, least: float = 1e-5) -> Tensor:
    """The point of least summed distance to n tensors of one name, all counting alike.

    Weiszfeld from the mean m: weights 1 / max(|w_k - m|, least), made to sum to 1. A step that
    is shorter than `least` ends it, and is not taken.
    """
    flat = values.reshape(len(values), -1)
    m = flat.mean(0)
    for _ in range(iterations):
        # lengths in float64: their bits then do not depend on how many threads add them up
        distances = torch.linalg.vector_norm(flat - m, dim=1, dtype=torch.float64).to(flat)
        weights = 1 / distances.clamp_min(least)
        moved = ((weights / weights.sum())[:, None] * flat).sum(0)
        if torch.linalg.vector_norm(moved - m, dtype=torch.float64) < least:
            break
        m = moved
    return m.reshape(values.shape[1:])


@register("maskedoptim", title="MaskedOptim", paper="Jiang et al., arXiv 2506.02079", year=2025)
@dataclass(frozen=True)
class MaskedOptim(TwoStages):
    """FedELC with a mask on hard samples, shorter steps of noisy clients, and a robust server.

    Equation:
        stage 1, detection and clean clients as FedNoRo
        S = the int(easy_share * b) samples of smallest CE(z_i, y_i)
        L = Lc / C + alpha Lo + beta Le / C         noisy clients, stage 2
            Lc = mean KL(p || q),  Le = mean H(p)
            Lo = 1/b sum_{i in S} -log q_{i,y}
        v <- v - label_rate ((q - p) / C + alpha 1[i in S] (q - y))
                                                    at the end of an epoch
        v <- K (softmax(v) + P) / 2                 at the end of training
        sent = received_share * received + (1 - received_share) * trained
        server: geometric median of each tensor by itself, all rounds

    p, q, v, P and K (label_scale) are those of FedELC; P is of the trained network. T1
    (warmup_rounds) is by default a quarter of the rounds. Clients count alike, whatever their
    number of samples.
    State: v, at noisy clients.
    Leaves the site: weights, the number of samples, and once the mean loss of each given class.
    Differs: as FedELC. Integer buffers are averaged by samples, not by the median. Clipping of
    logits and a mask by agreement are in the authors' code, but never used: there are none.
    """

    alpha: Annotated[float, Ge(0)] = 0.5
    beta: Annotated[float, Ge(0)] = 0.1
    easy_share: Annotated[float, Ge(0), Le(1)] = 0.8
    received_share: Annotated[float, Ge(0), Le(1)] = 0.2
    label_scale: Annotated[float, Gt(0)] = 10.0
    label_rate: Annotated[float, Ge(0)] = 15.625

    warmup_parts: ClassVar[int] = 4

    traits = Traits(
        approach=("loss", "selection", "correction", "aggregation"),
        sends=SENDS,
        receives=RECEIVES,
        keeps=(
            Declared(
                LABELS, ("samples", "classes"), "variables of the labels", when="at noisy clients"
            ),
        ),
        cost=(
            "one forward and one backward pass per batch, at noisy clients one more forward pass "
            "over the site in each round; once a pass over the site"
        ),
        individual=True,
        aggregates=True,
        note="Two groups are always found: without noise some clients are called noisy as well.",
    )

    # ---- at the client

    def begin(self, c: Client) -> None:
        super().begin(c)
        if is_noisy(c):
            c.scratch[LABELS] = LabelVariables.of(c, LABELS, self.label_scale)

    def batches(self, c: Client, epoch: int) -> Iterator[Batch]:
        yield from super().batches(c, epoch)
        if is_noisy(c):
            c.scratch[LABELS].step(self.label_rate)

    def loss(self, c: Client, b: Batch) -> Tensor:
        if not is_noisy(c):
            return super().loss(c, b)
        labels: LabelVariables = c.scratch[LABELS]
        logits = c.model[0](b.x)
        easy = easy_mask(F.cross_entropy(logits.detach(), b.y, reduction="none"), self.easy_share)
        total = labels.loss(logits, b, self.alpha, self.beta, easy)
        return total + c.method.regularize(c, 0, logits, b)

    def finish(self, c: Client) -> Arrays:
        if is_noisy(c):
            c.state[LABELS] = c.scratch[LABELS].merged(c, self.label_scale)
            self.step_back(c)
        return {}

    @torch.no_grad()
    def step_back(self, c: Client) -> None:
        """Takes the network a part of the way back to the received one: that is sent."""
        for name, value in c.model.state_dict().items():
            received = c.inbox[MODEL + name].to(value.device)
            value.copy_(blended(received, value, self.received_share))

    # ---- at the server

    def join(self, s: Server, replies: list[Reply]) -> None:
        """The next model: a median where numbers are trained or measured, counters as FedAvg."""
        model = with_prefix(s.arrays, MODEL)
        counters = {name: v for name, v in model.items() if not v.is_floating_point()}
        s.arrays |= s.aggregate(replies, MODEL, counters)
        for name in model.keys() - counters.keys():
            s.arrays[name] = geometric_median(torch.stack([r.arrays[name] for r in replies]))
