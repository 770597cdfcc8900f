"""FedLSR: Jiang et al., CIKM 2022.

*Towards Federated Learning against Noisy Labels via Local Self-Regularization.*
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from annotated_types import Ge, Gt, Le
from torch import Tensor

from flr.core.contract import Batch, Client, Method
from flr.core.registry import register
from flr.core.traits import Traits
from flr.data.batches import Batches, augment

CLAMP = 1e-6


def blended(z1: Tensor, z2: Tensor, l: float) -> Tensor:  # noqa: E741 - the paper's letter
    """log p_s, where p = l * softmax(z1) + (1 - l) * softmax(z2) and p_s = p^2 / sum p^2."""
    weight = torch.tensor([l, 1 - l], dtype=z1.dtype, device=z1.device).log()
    log_p = torch.logaddexp(weight[0] + z1.log_softmax(1), weight[1] + z2.log_softmax(1))
    return (2 * log_p).log_softmax(1)


def sharpened(z: Tensor, sharpness: float) -> Tensor:
    """softmax(sharpness * z), at least 1e-6."""
    return (sharpness * z).softmax(1).clamp(min=CLAMP)


def jensen_shannon(a: Tensor, b: Tensor) -> Tensor:
    """(KL(a | M) + KL(b | M)) / 2, M = (a + b) / 2; the mean over samples and classes."""
    log_m = ((a + b) / 2).log()
    return (a * (a.log() - log_m) + b * (b.log() - log_m)).mean() / 2


def self_entropy(a: Tensor, b: Tensor, repo_quirks: bool = False) -> Tensor:
    """The mean entropy of both views; the authors' code: of softmax(a), and of a alone."""
    views = [a.softmax(1)] if repo_quirks else [a, b]
    return -torch.stack([(p * p.log()).sum(1).mean() for p in views]).mean()


def ramp(gamma: float, r: int, T_w: float) -> float:  # noqa: N803 - the paper's letters
    """gamma(r) = gamma * min(1, r / T_w)."""
    return gamma if r >= T_w else gamma * r / T_w


@register("fedlsr", title="FedLSR", paper="Jiang et al., CIKM 2022", year=2022)
@dataclass(frozen=True)
class FedLSR(Method):
    """Trains on the sharpened blend of two views' predictions and makes the views agree.

    Equation:
        p   = l * softmax(z1) + (1 - l) * softmax(z2),   l ~ Beta(1, 1)
        p_s = p^2 / sum p^2
        a, b = softmax(sharpness * z1), softmax(sharpness * z2)
        L   = CE(y, p_s) + gamma(r) * JS(a, b) + lam_e * (H(a) + H(b)) / 2
        gamma(r) = gamma * min(1, r / (warmup_share * R))

    The views are the batch and the batch augmented once more; where the data set is not augmented,
    the second has Gaussian noise (view_noise, in units of the normalised inputs).

    State: none.
    Leaves the site: weights and the number of samples.
    Differs: the authors' code takes the cross-entropy of softmax(p_s) and the entropy of
    softmax(a), and never the second view's; repo_quirks = true does the same. Its augmentations
    are rotation or colour jitter of an unaugmented first view.
    """

    gamma: Annotated[float, Ge(0)] = 0.4
    lam_e: Annotated[float, Ge(0)] = 0.6
    sharpness: Annotated[float, Gt(0)] = 3.0
    warmup_share: Annotated[float, Ge(0), Le(1)] = 0.2
    view_noise: Annotated[float, Ge(0)] = 0.1
    repo_quirks: bool = False

    traits = Traits(
        approach=("loss",),
        changes_inputs=True,
        cost="two forward and two backward passes per batch",
    )

    def loss(self, c: Client, b: Batch) -> Tensor:
        total = torch.zeros((), device=b.x.device)
        view = second_view(c, b.x, self.view_noise)
        weight = torch.rand((), generator=c.rng).item()
        gamma = ramp(self.gamma, c.round, self.warmup_share * c.rounds)
        for net, network in enumerate(c.model):
            z1, z2 = network(b.x), network(view)
            log_p_s = blended(z1, z2, weight)
            p1, p2 = sharpened(z1, self.sharpness), sharpened(z2, self.sharpness)
            total = total + c.method.criterion(c, log_p_s.exp() if self.repo_quirks else log_p_s, b)
            total = total + c.method.regularize(c, net, z1, b)
            total = total + gamma * jensen_shannon(p1, p2)
            total = total + self.lam_e * self_entropy(p1, p2, self.repo_quirks)
        return total


def second_view(c: Client, x: Tensor, noise: float) -> Tensor:
    """The inputs augmented once more, or with noise where the data set is not augmented."""
    made = c.make_batches
    if isinstance(made, Batches) and made.kind != "none":
        return augment(x, made.kind, c.rng, made.fill)
    return x + noise * torch.randn(x.shape, generator=c.rng).to(x.device)
