"""A site's own way of being wrong, learnt from its labels and from opinions formed without them.

z is the true class of a sample, y the label that it was given, l_v(z) the logarithm of opinion v:

    q(z) ~ exp(sum_v a_v l_v(z))         the opinions joined, and calibrated, by weights a_v >= 0
    y | z ~ T[z, y]                      the site's confusions
    T[z] ~ Dirichlet(s * even(eps))      1 - eps on the diagonal, eps shared evenly by the others

No opinion on a sample was formed with its own label, so the likelihood of the labels is that of
held-out data: a, T and eps maximise it (expectation maximisation; the weights by Newton's method).
Each sample is judged by the T of the *others* (collapsed variational Bayes, Asuncion et al., UAI
2009, their CVB0), so that a lone mistake cannot vouch for itself; for the same reason the product
of these likelihoods is a leave-one-out one, and the strength s is the one for which it is highest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

# Samples that the prior of a row of T counts for, from "each site has confusions of its own" to
# "all mistakes are even". Half a decade apart, as the likelihood hardly changes in between.
STRENGTHS = (10.0, 30.0, 100.0, 300.0)
# Sums of weights to start from. The likelihood can have two hills: opinions that say what labels
# are given, and few mistakes; and bold opinions, and many mistakes that are made by rule.
BOLDNESS = (1.0, 4.0)
# Odds that mistakes are even, before any label is seen: people's are mostly not. Of 400 labels
# with even mistakes, the likelihood's odds are 20 already.
_EVEN_ODDS = 1 / 3
EVEN = 100.0  # a strength from which on a site's own confusions count for little
_ENTRIES = 500_000  # samples x classes for which all strengths are tried
STEPS = 25  # of EM; more changed no rate by a tenth of a point
_FEW_WRONG = (1.0, 4.0)  # what eps starts from: five labels, of which one was wrong
UNKNOWN = _FEW_WRONG[0] / sum(_FEW_WRONG)
_PULL = 1.0  # precision of a_v around equal shares: as much as one sample says
_SAFE = 0.2  # of the curvature of EM's own step, so that Newton's step cannot leave the hill
_LEAST = 1e-12


@dataclass(frozen=True, eq=False)
class Fitted:
    """`posterior`: the true class of each sample, n x classes; the rest as in the module's text."""

    posterior: Tensor
    opinion: Tensor  # q, n x classes
    transition: Tensor  # T, true x given
    weights: Tensor  # a, one for each opinion
    strength: float
    fits: float  # mean log-likelihood of a label, each by what the others say
    evenly: float = 1.0  # probability that mistakes are alike in all classes
    rival: Fitted | None = None  # the best fit from the other start
    doubtful: float = 0.0  # probability that the rival is right

    def wrong(self, given: Tensor) -> Tensor:
        """The probability that each label is wrong, n."""
        return (1 - self.posterior.gather(1, given[:, None])[:, 0]).clamp(0, 1)


def fit(opinions: Tensor, given: Tensor) -> Fitted:
    """Learns weights and confusions, with the prior under which the labels are likeliest.

    Args:
        opinions: Log probabilities, opinions x n x classes, none formed with the sample's label.
        given: The labels, n.

    Example:
        >>> fit(torch.stack([site.log(), neighbours.log()]), given).wrong(given)
    """
    n, classes = opinions.shape[1:]
    some = slice(None, None, max(1, n * classes // _ENTRIES))  # of a large site, a part decides
    strengths = STRENGTHS if classes > 1 else STRENGTHS[-1:]
    found = [
        [fit_with(opinions[:, some], given[some], strength, bold=bold) for strength in strengths]
        for bold in BOLDNESS
    ]
    rival, best = sorted((max(one, key=_fits) for one in found), key=_fits)
    tried = [fitted for one in found for fitted in one]
    alike = max((one.fits for one in tried if one.strength >= EVEN), default=-torch.inf)
    other = max((one.fits for one in tried if one.strength < EVEN), default=-torch.inf)
    samples = len(best.posterior)
    if samples < n:
        best, rival = (
            fit_with(opinions, given, one.strength, bold=float(one.weights.sum()))
            for one in (best, rival)
        )
    return replace(
        best,
        evenly=_better(samples * (alike - other) + math.log(_EVEN_ODDS)),
        rival=rival,
        doubtful=_better(samples * (rival.fits - best.fits)),
    )


def _fits(fitted: Fitted) -> float:
    return fitted.fits


def _better(gain: float) -> float:
    """Probability of a model, by how much its log-likelihood is above that of another."""
    return float(torch.tensor(gain).sigmoid())


def fit_with(
    opinions: Tensor,
    given: Tensor,
    strength: float,
    *,
    bold: float = 1.0,
    counting: Tensor | None = None,
    start: Fitted | None = None,
    steps: int = STEPS,
) -> Fitted:
    """The same with one prior, from weights whose sum is `bold`.

    `counting` makes some samples count more (Bayesian bootstrap).
    """
    opinions = opinions.double()
    n, classes = opinions.shape[1:]
    counting = torch.ones(n, dtype=torch.float64) if counting is None else counting.double()
    # the columns of T that labels say something of: with 10,000 classes all of it is a gigabyte
    named, place = given.unique(return_inverse=True)
    if start is None:
        weights = torch.full((len(opinions),), bold / len(opinions), dtype=torch.float64)
        counts, eps = torch.zeros(classes, len(named), dtype=torch.float64), UNKNOWN
        own = torch.zeros(n, classes, dtype=torch.float64)
    else:
        weights, own = start.weights, counting[:, None] * start.posterior.double()
        counts = _counts(own, place, len(named))
        eps = _rate(counts, named)
    for _ in range(steps):
        q = torch.einsum("v,vnc->nc", weights, opinions).softmax(1)
        eps_of_prior = eps
        prior = strength * _even_columns(classes, eps_of_prior, named)
        of_label = (prior + counts).T[place] - own
        of_class = (strength + counts.sum(1))[None] - own
        joint = q * (of_label / of_class.clamp(min=_LEAST)).clamp(min=_LEAST)
        likelihood = joint.sum(1, keepdim=True)
        posterior = joint / likelihood
        own = counting[:, None] * posterior
        counts = _counts(own, place, len(named))
        eps = _rate(counts, named)
        weights = _reweighted(weights, opinions, q, posterior, counting)
    transition = strength * even(classes, eps_of_prior)
    transition[:, named] += counts
    fits = float((counting * likelihood[:, 0].log()).sum() / counting.sum())
    return Fitted(posterior, q, _rows(transition), weights, strength, fits)


def even(classes: int, eps: float) -> Tensor:
    """Mistakes that are made alike in all classes, classes x classes."""
    return _even_columns(classes, eps, torch.arange(classes))


def _even_columns(classes: int, eps: float, named: Tensor) -> Tensor:
    """The columns of `even` for some given labels, classes x labels."""
    off = eps / max(classes - 1, 1)
    matrix = torch.full((classes, len(named)), off, dtype=torch.float64)
    matrix[named, torch.arange(len(named))] = 1 - eps if classes > 1 else 1.0
    return matrix


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


def log_shares(given: Tensor, classes: int) -> Tensor:
    """Log of how often each class is given, each as if given once more than it was."""
    counts = given.bincount(minlength=classes).double() + 1
    return (counts / counts.sum()).log()


def _counts(own: Tensor, place: Tensor, labels: int) -> Tensor:
    """Expected numbers of samples, true x given; `place` is each one's given label among these."""
    zero = torch.zeros(labels, own.shape[1], dtype=torch.float64)
    return zero.index_add_(0, place, own).T


def _rate(counts: Tensor, named: Tensor) -> float:
    total = float(counts.sum())
    wrong = total - float(counts[named, torch.arange(len(named))].sum())
    return (wrong + _FEW_WRONG[0]) / (total + sum(_FEW_WRONG))


def _reweighted(
    weights: Tensor, opinions: Tensor, q: Tensor, posterior: Tensor, counting: Tensor
) -> Tensor:
    """One step of Newton's method towards weights under which q agrees with the posterior."""
    pull = _PULL * torch.eye(len(weights), dtype=torch.float64)
    slope = _mean(posterior - q, opinions, counting) - _PULL * (weights - 1 / len(weights))
    known, all_of_it = _spread(posterior, opinions, counting), _spread(q, opinions, counting)
    # of the likelihood of the labels: what is not known of the classes does not bend it
    bend = all_of_it - (1 - _SAFE) * known + pull
    step = torch.linalg.solve(bend, slope)
    # not below 0: an opinion that contradicts the labels is worth nothing, not its opposite
    found: Tensor = (weights + step.clamp(-0.5, 0.5)).clamp(min=0.0)
    return found


def _mean(p: Tensor, opinions: Tensor, counting: Tensor) -> Tensor:
    return torch.einsum("n,nc,vnc->v", counting, p, opinions)


def _spread(p: Tensor, opinions: Tensor, counting: Tensor) -> Tensor:
    """Sum over samples of the opinions' covariance under p, opinions x opinions."""
    mean = torch.einsum("nc,vnc->vn", p, opinions)
    weighted = (counting[:, None] * p)[None] * opinions
    crossed = torch.einsum("vnc,wnc->vw", weighted, opinions)
    return crossed - torch.einsum("n,vn,wn->vw", counting, mean, mean)


def _rows(matrix: Tensor) -> Tensor:
    return matrix / matrix.sum(1, keepdim=True)
