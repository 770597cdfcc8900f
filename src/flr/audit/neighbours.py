"""What the labels of the samples that look most alike say of a sample's true class.

With M[z, y], how often a neighbour of a sample of class z is given as y, the labels of the nearest
neighbours say, each on its own,

    log p(z) = log share(z) + sum_j log M[z, y_j] + constant

M is counted over the whole site, with what is believed of each sample's class: a site that takes
cats for dogs has dogs among the neighbours of its cats. Neighbours are alike, so that many say less
than as many that are not: how much less is fitted, as the labels are foretold best.
"""

from __future__ import annotations

import torch
from torch import Tensor

from flr.audit import noise_model
from flr.audit.noise_model import Fitted

# How many neighbours are asked: the number whose labels foretell a sample's own best.
COUNTS = (5, 10, 20, 40)
_ROWS = 1_024  # compared with all others at a time


def nearest(features: Tensor, count: int) -> Tensor:
    """The most similar other samples of each, by the angle between centred features; n x count."""
    x = features.float()
    x = torch.nn.functional.normalize(x - x.mean(0), dim=1)
    found = []
    for start in range(0, len(x), _ROWS):
        alike = x[start : start + _ROWS] @ x.T
        own = torch.arange(start, start + len(alike))
        alike[torch.arange(len(alike)), own] = -torch.inf
        found.append(alike.topk(min(count, len(x) - 1), dim=1).indices)
    return torch.cat(found)


def neighbour_opinion(features: Tensor, believed: Tensor, given: Tensor) -> Tensor:
    """Class probabilities by the nearest neighbours' labels, n x classes; never by a sample's own.

    Args:
        features: n x d.
        believed: What the true class of each sample may be, n x classes.
        given: The labels.
    """
    classes = believed.shape[1]
    if len(given) <= classes or classes == 1:  # too few to count what neighbours are given as
        return torch.full((len(given), classes), 1 / classes)
    order = nearest(features, max(COUNTS))
    counts = sorted({min(count, order.shape[1]) for count in COUNTS})
    found = [_by_count(order[:, :count], believed.double(), given) for count in counts]
    return max(found, key=lambda fitted: fitted.fits).opinion.float()


def _by_count(order: Tensor, believed: Tensor, given: Tensor) -> Fitted:
    classes = believed.shape[1]
    votes = torch.zeros(len(given), classes, dtype=torch.float64)
    votes.scatter_add_(1, given[order], torch.ones(order.shape, dtype=torch.float64))
    # as if each class had been seen once more, with neighbours as the site has them
    met = believed.T @ votes + order.shape[1] * noise_model.log_shares(given, classes).exp()
    shares = (believed.sum(0) + 1) / (len(given) + classes)  # not of labels: of what they should be
    said = votes @ (met / met.sum(1, keepdim=True)).log().T / order.shape[1] + shares.log()
    return noise_model.fit(said.log_softmax(1)[None], given)
