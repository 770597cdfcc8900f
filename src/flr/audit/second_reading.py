"""What models say that were trained on the very labels, beside opinions that were not.

Such a model repeats some wrong labels, and nobody can tell from its likelihood how many. So it is
taken as a second reader of unknown honesty: u is its log odds that the label is wrong, L those of
the opinions before it, and whether the label is wrong, w, is not known:

    u = alpha + beta L + delta w + sigma N(0, 1)         log odds of w before: L + shift

fitted by expectation maximisation. A model that has memorized says the same of wrong and of right
labels: delta is near 0 and it changes nothing. One that only repeats the first reader is explained
by beta L. By Bayes' rule, the log odds after reading u are

    L + shift + delta / sigma^2 (u - alpha - beta L - delta / 2)
"""

from __future__ import annotations

import torch
from torch import Tensor

_STEPS = 50  # of EM
_LEAST = 1e-4  # of a probability: below it a model's confidence says nothing more
# Standard deviation of `shift`, in log odds: how far the rate of the first reader may be off,
# before what it says of single labels is doubted (docs/explanation/label-audit.md).
_SHIFT = 0.7
# Spread of log odds from which on a reader tells labels apart: heads that say hardly more than
# chance (digits, 72 labels, two thirds wrong) have 1.0, those of photographs 4.8.
_KNOWS = 1.4
_FIRST = 6.0  # log odds of the first reader that count in beta: beyond them it is just sure


def log_odds_of_wrong(view: Tensor, given: Tensor) -> Tensor:
    """By one view, n."""
    right = view.double().gather(1, given[:, None])[:, 0]
    return torch.logit(1 - right, eps=_LEAST)


def reread(before: Tensor, said: Tensor, known: Tensor) -> Tensor:
    """Log odds that labels are wrong, after a second reader.

    Args:
        before: The first reader's, n.
        said: The second reader's, n.
        known: Where the second reader has read, bool, n.
    """
    if int(known.sum()) < 3 or float(said[known].var()) < _LEAST:
        return before
    first, u = before[known].double(), said[known].double()
    columns = torch.stack([torch.ones_like(u), first.clamp(-_FIRST, _FIRST)], 1)
    # From what the first reader knows: any start by u alone may end in a split of right labels
    # into sure and less sure ones. Where the first reader hardly knows, there is no other start.
    knows = float(first.std()) > _KNOWS
    shift, wrong = 0.0, torch.sigmoid(first if knows else first + (u - u.mean()) / u.std())
    for _ in range(_STEPS):
        alpha_beta, delta, variance = _regressed(columns, u, wrong)
        if delta <= 0:
            return before
        read = delta / variance * (u - columns @ alpha_beta - delta / 2)
        shift = _shifted(shift, first, wrong)
        wrong = torch.sigmoid(first + shift + read)
    after = before.double().clone()
    after[known] = first + shift + read
    return after


def _regressed(columns: Tensor, u: Tensor, wrong: Tensor) -> tuple[Tensor, float, float]:
    """Least squares of u, each sample once as right and once as wrong with these weights."""
    n, ridge = len(u), 1e-6 * torch.eye(3, dtype=torch.float64)
    right = torch.cat([columns, torch.zeros(n, 1, dtype=torch.float64)], 1)
    both = torch.cat([right, torch.cat([columns, torch.ones_like(right[:, :1])], 1)])
    weights, goal = torch.cat([1 - wrong, wrong]), torch.cat([u, u])
    weighted = both.T * weights
    found = torch.linalg.solve(weighted @ both + n * ridge, weighted @ goal)
    variance = float((weights * (goal - both @ found).square()).sum() / n)
    return found[:2], float(found[2]), max(variance, _LEAST)


def _shifted(shift: float, first: Tensor, wrong: Tensor) -> float:
    """One step of Newton's method for the shift, with a normal prior around 0."""
    now = torch.sigmoid(first + shift)
    slope = float((wrong - now).sum()) - shift / _SHIFT**2
    bend = float((now * (1 - now)).sum()) + 1 / _SHIFT**2
    return shift + slope / bend
