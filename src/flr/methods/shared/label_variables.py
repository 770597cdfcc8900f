"""Labels that a noisy client learns with its network, as in PENCIL: Yi and Wu, CVPR 2019."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from flr.core.contract import Batch, Client
from flr.models.inference import method_logits


def label_loss(
    logits: Tensor,
    v: Tensor,
    y: Tensor,
    alpha: float,
    beta: float,
    counted: Tensor | None = None,
) -> Tensor:
    """Lc / C + alpha Lo + beta Le / C, with p = softmax(z) and q = softmax(v).

    Lc = mean KL(p || q), Lo = mean -log q_{i,y}, Le = mean H(p). Where `counted` (samples) is 0,
    a sample is left out of Lo, which is divided by all.
    """
    p, log_p, log_q = logits.softmax(1), logits.log_softmax(1), v.log_softmax(1)
    given = F.nll_loss(log_q, y, reduction="none")
    given = given if counted is None else given * counted
    near = (p * (log_p - log_q)).sum(1).mean()
    entropy = -(p * log_p).sum(1).mean()
    return (near + beta * entropy) / logits.shape[1] + alpha * given.mean()


def label_gradient(
    p: Tensor, v: Tensor, y: Tensor, alpha: float, counted: Tensor | None = None
) -> Tensor:
    """b dL/dv: (q - p) / C + alpha (q - y), for each sample, whatever the batch."""
    q, classes = v.softmax(1), v.shape[1]
    given = q - F.one_hot(y, classes)
    return (q - p) / classes + alpha * (given if counted is None else given * counted[:, None])


def merged_labels(v: Tensor, p: Tensor, scale: float) -> Tensor:
    """K (softmax(v) + p) / 2: the variables of the next time are probabilities, not their logs."""
    return scale * (v.softmax(1) + p) / 2


@dataclass
class LabelVariables:
    """The variables of all samples of a site during one task: they move once in an epoch."""

    v: Tensor  # samples x classes
    gradient: Tensor  # of each sample's loss, from its last visit

    @classmethod
    def of(cls, c: Client, name: str, scale: float) -> LabelVariables:
        """As the site has kept them, or at first K times the given labels."""
        first = scale * F.one_hot(c.data.y, c.data.classes)
        v = c.state.get(name, first).to(next(c.model.parameters()))
        return cls(v, torch.zeros_like(v))

    def loss(
        self,
        logits: Tensor,
        b: Batch,
        alpha: float,
        beta: float,
        counted: Tensor | None = None,
    ) -> Tensor:
        """The loss of a batch, for which the variables are constant; notes their gradient."""
        v, p = self.v[b.index], logits.detach().softmax(1)
        self.gradient[b.index] = label_gradient(p, v, b.y, alpha, counted)
        return label_loss(logits, v, b.y, alpha, beta, counted)

    def step(self, rate: float) -> None:
        """v <- v - rate g, at the end of an epoch."""
        self.v = self.v - rate * self.gradient

    def merged(self, c: Client, scale: float) -> Tensor:
        """What is kept: halfway to what the trained network says of the samples."""
        p = method_logits(c.method, c.model, c.data.x).softmax(1)
        return merged_labels(self.v, p, scale).cpu()
