"""FedELC: Jiang et al., CIKM 2024.

*Tackling Noisy Clients in Federated Learning with End-to-end Label Correction.*
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Gt
from torch import Tensor

from flr.core.arrays import Arrays
from flr.core.contract import Batch, Client
from flr.core.registry import register
from flr.core.traits import Declared, Traits
from flr.methods.shared.label_variables import LabelVariables
from flr.methods.shared.noisy_clients import RECEIVES, SENDS, TwoStages, is_noisy

LABELS = "fedelc.labels"


@register("fedelc", title="FedELC", paper="Jiang et al., CIKM 2024", year=2024)
@dataclass(frozen=True)
class FedELC(TwoStages):
    """Finds noisy clients as FedNoRo; they then learn their labels together with the network.

    Equation:
        stage 1, detection, clean clients and server as FedNoRo
        q = softmax(v_i),  p = softmax(z_i)         noisy clients, stage 2
        L = Lc / C + alpha Lo + beta Le / C
            Lc = mean KL(p || q),  Lo = mean -log q_{i,y},  Le = mean H(p)
        v <- v - label_rate ((q - p) / C + alpha (q - y))
                                                    at the end of an epoch
        v <- K (softmax(v) + P) / 2                 at the end of training

    v_i is a variable in R^C of each sample, at first K (label_scale) times its given label; P is
    what the trained network predicts. The network's share of L is divided by C: a weak gradient.
    T1 (warmup_rounds) is by default a sixth of the rounds.
    State: v, at noisy clients.
    Leaves the site: weights, the number of samples, and once the mean loss of each given class.
    Differs: label_rate is for one sample; the authors' 1000 multiplies the gradient of a batch's
    mean, which is the same for their batches of 64. P is of plain images in eval mode; theirs
    of augmented ones in training mode. The last incomplete batch is kept, where theirs gives its
    samples no gradient. Their distillation weight is computed and never used: there is none.
    """

    alpha: Annotated[float, Ge(0)] = 0.5
    beta: Annotated[float, Ge(0)] = 0.2
    label_scale: Annotated[float, Gt(0)] = 10.0
    label_rate: Annotated[float, Ge(0)] = 15.625

    traits = Traits(
        approach=("loss", "correction", "aggregation"),
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
        total = labels.loss(logits, b, self.alpha, self.beta)
        return total + c.method.regularize(c, 0, logits, b)

    def finish(self, c: Client) -> Arrays:
        if is_noisy(c):
            c.state[LABELS] = c.scratch[LABELS].merged(c, self.label_scale)
        return {}
