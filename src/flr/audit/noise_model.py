"""A site's own way of being wrong: how often, and which classes are given for which.

The views say what the true class z of sample i may be, q_i(z); its label y is then drawn by
T[z, y]. T is not known and a site has few samples, so there are two models of it.

`one_rate`: T = 1 - eps on the diagonal, and what is wrong does not depend on z. One number is
learned, which is what a weak model allows.
`by_rule`: each row of T has a Dirichlet prior around even mistakes, and is learned. It is for
classes that are swapped by rule; a weak model's own confusions would be taken for the site's. Each
sample is judged by what the *other* samples say of T (collapsed variational Bayes, Asuncion et al.,
UAI 2009, their CVB0): a lone mistake must not vouch for itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

STRENGTH = 3.0  # samples that the prior of a row of T counts for
MOST_CLASSES = 200  # above it C x C numbers cannot be learned
STEPS = 15
_FEW_WRONG = (1.0, 4.0)  # what eps starts from: as if one of five labels had been wrong
UNKNOWN = _FEW_WRONG[0] / sum(_FEW_WRONG)
_LEAST = 1e-12


@dataclass(frozen=True, eq=False)
class Fitted:
    """`posterior`: the true class of each sample, n x classes."""

    posterior: Tensor
    fits: float  # mean log-likelihood of a label

    def wrong(self, given: Tensor) -> Tensor:
        """The probability that each label is wrong, n."""
        return (1 - self.posterior.gather(1, given[:, None])[:, 0]).clamp(0, 1)


def by_rule(q: Tensor, given: Tensor) -> Fitted:
    """Learns which classes are given for which, from a site's own labels."""
    q = q.double()
    classes, eps = q.shape[1], UNKNOWN
    counts = torch.zeros(classes, classes, dtype=torch.float64)  # true x given
    own = torch.zeros_like(q)  # what each sample has added to its column of counts
    for _ in range(STEPS):
        even = torch.full((classes, classes), eps / (classes - 1), dtype=torch.float64)
        prior = STRENGTH * even.fill_diagonal_(1 - eps)
        of_label = (prior + counts).T[given] - own
        of_class = (prior.sum(1) + counts.sum(1))[None] - own
        joint = q * (of_label / of_class).clamp(min=_LEAST)
        likelihood = joint.sum(1, keepdim=True)
        own = posterior = joint / likelihood
        counts = torch.zeros_like(counts).index_add_(0, given, own).T
        eps = _rate(counts.sum() - counts.diagonal().sum(), counts.sum())
    return Fitted(posterior, float(likelihood.log().mean()))


def one_rate(
    q: Tensor, given: Tensor, *, shares: Tensor | None = None, weights: Tensor | None = None
) -> Fitted:
    """Learns how often labels are wrong.

    Wrong labels are drawn evenly from the other classes, or by `shares` of all classes; `weights`
    make some samples count more (bootstrap).
    """
    q = q.double()
    weights = torch.ones(len(q), dtype=torch.float64) if weights is None else weights.double()
    right = q.gather(1, given[:, None])
    drawn = 1 / max(q.shape[1] - 1, 1) if shares is None else shares[given][:, None]
    eps = UNKNOWN
    for _ in range(STEPS):
        wrong = (1 - right) * eps * drawn
        likelihood = (wrong + right * (1 - eps)).clamp(min=_LEAST)
        share = wrong / likelihood  # n x 1
        eps = _rate((weights[:, None] * share).sum(), weights.sum())
    posterior = q * share / (1 - right).clamp(min=_LEAST)
    fits = (weights * likelihood[:, 0].log()).sum() / weights.sum()
    return Fitted(posterior.scatter(1, given[:, None], 1 - share), float(fits))


def matched(wrong: Tensor, rate: float) -> Tensor:
    """The same order of samples, with odds shifted so that `rate` of the labels are wrong."""
    logits = torch.logit(wrong.double(), eps=1e-9)
    low, high = -40.0, 40.0
    for _ in range(30):
        middle = (low + high) / 2
        if float(torch.sigmoid(logits + middle).mean()) < rate:
            low = middle
        else:
            high = middle
    return torch.sigmoid(logits + middle)


def _rate(wrong: Tensor, total: Tensor) -> float:
    return float((wrong + _FEW_WRONG[0]) / (total + sum(_FEW_WRONG)))
