"""Linear heads on features that predict true classes and are trained on labels that may be wrong.

A head is a multinomial logistic regression p(z|x) with a normal prior on its weights. It is trained
to explain the labels as they are given, through the site's confusions ("forward correction",
Patrini et al., CVPR 2017):

    - sum_i log sum_z T[z, y_i] p(z | x_i)  +  precision / 2 |W|^2

With T the unit matrix that is the usual regression. Every sample is predicted by the head of its
fold, which was trained without that fold.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

DIMENSIONS = 128  # of the features' principal components; 256 changed nothing on CIFAR-100
_STEPS = 100  # of L-BFGS at most; most fits need 30
_LEAST = 1e-9
_OF_BIAS = 1e-2  # precision of a class's bias: keeps that of an absent class finite


def reduced(features: Tensor) -> Tensor:
    """Principal components with a mean square length of 1, and a column of ones, n x d."""
    x = features.float()
    x = x - x.mean(0)
    if min(x.shape) > DIMENSIONS:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)  # of the randomised decomposition
            x = x @ torch.pca_lowrank(x, q=DIMENSIONS, center=False, niter=4)[2]
    x = x / x.square().sum(1).mean().sqrt().clamp(min=_LEAST)
    return torch.cat([x, torch.ones(len(x), 1)], 1)


def folds_of(given: Tensor, count: int, rng: torch.Generator) -> Tensor:
    """A fold for each sample: each given class is dealt out in turn."""
    shuffled = torch.randperm(len(given), generator=rng)
    by_class = shuffled[given[shuffled].argsort(stable=True)]
    fold = torch.empty_like(given)
    fold[by_class] = torch.arange(len(given)) % count
    return fold


class OutOfFold:
    """Heads of one way to deal out folds; each fit goes on from the weights of the one before."""

    def __init__(self, x: Tensor, given: Tensor, classes: int, fold: Tensor) -> None:
        self.x, self.given, self.fold, self.classes = x, given, fold, classes
        count = int(fold.max()) + 1
        self.heads = [torch.zeros(x.shape[1], classes) for _ in range(count)]

    def log_probabilities(self, precision: float, transition: Tensor | None) -> Tensor:
        """Trains, and predicts each sample by the head that has not seen it; n x classes."""
        found = torch.empty(len(self.x), self.classes)
        for number, start in enumerate(self.heads):
            out = self.fold == number
            head = train(self.x[~out], self.given[~out], precision, transition, start)
            self.heads[number] = head
            found[out] = (self.x[out] @ head).log_softmax(1)
        return found


def train(
    x: Tensor, given: Tensor, precision: float, transition: Tensor | None, start: Tensor
) -> Tensor:
    """The weights of one head, d x classes; the last row is the biases."""
    penalty = torch.full((x.shape[1], 1), precision)
    penalty[-1] = _OF_BIAS
    goal = torch.nn.functional.one_hot(given, start.shape[1]).float()
    said = goal if transition is None else transition.float()[:, given].T  # n x classes

    def loss(weights: Tensor) -> tuple[Tensor, Tensor]:
        p = (x @ weights).softmax(1)
        joint = p * said
        likelihood = joint.sum(1, keepdim=True).clamp(min=_LEAST)
        value = -likelihood.log().sum() + (penalty * weights.square()).sum() / 2
        slope = x.T @ (p - joint / likelihood) + penalty * weights
        return value / len(x), slope / len(x)

    return _minimized(loss, start)


def _minimized(loss: Callable[[Tensor], tuple[Tensor, Tensor]], start: Tensor) -> Tensor:
    weights = start.clone().requires_grad_(True)
    search = torch.optim.LBFGS(
        [weights],
        max_iter=_STEPS,
        tolerance_grad=1e-5,
        tolerance_change=1e-8,
        history_size=10,
        line_search_fn="strong_wolfe",
    )

    def closure() -> Tensor:
        value, weights.grad = loss(weights.detach())
        return value

    search.step(closure)
    return weights.detach()
