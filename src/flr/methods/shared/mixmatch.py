"""DivideMix's equations: guessed labels, ramp and the parts of its loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor


def sharpen(p: Tensor, T: float) -> Tensor:  # noqa: N803 - the paper's letter
    """p^(1/T) / sum_c p_c^(1/T)."""
    powered = p ** (1 / T)
    return powered / powered.sum(1, keepdim=True)


def co_refine(y: Tensor, w: Tensor, p: Sequence[Tensor], T: float) -> Tensor:  # noqa: N803
    """Labelled targets: sharpen(w y + (1 - w) mean of the views p); y one-hot, one w a sample."""
    return sharpen(w[:, None] * y + (1 - w[:, None]) * torch.stack(list(p)).mean(0), T)


def co_guess(p: Sequence[Tensor], T: float) -> Tensor:  # noqa: N803
    """Unlabelled targets: sharpen(mean of p: two views by two networks)."""
    return sharpen(torch.stack(list(p)).mean(0), T)


def ramp(t: float, warm_up: float, length: float, lambda_u: float) -> float:
    """lambda_u(t) = lambda_u * clip((t - warm_up) / length, 0, 1)."""
    return lambda_u * min(max((t - warm_up) / length, 0.0), 1.0)


def unlabelled_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Lu: (p - q)^2, the mean over rows and classes; 0 without rows."""
    return F.mse_loss(logits.softmax(1), targets) if len(logits) else logits.sum()


def prior_penalty(logits: Tensor) -> Tensor:
    """sum_c (1/C) log((1/C) / mean_i p_ic): keeps the predictions from falling on one class."""
    mean = logits.softmax(1).mean(0).clamp_min(torch.finfo(logits.dtype).tiny)
    prior = 1 / logits.shape[1]
    return (prior * (prior / mean).log()).sum()


def confidence_penalty(logits: Tensor) -> Tensor:
    """mean_i sum_c p_c log p_c, negative entropy: falls as predictions lose confidence."""
    return (logits.softmax(1) * logits.log_softmax(1)).sum(1).mean()


class MixedBatches(NamedTuple):
    """A loss and what it is made of."""

    loss: Tensor
    lx: Tensor
    lu: Tensor
    penalty: Tensor


def dividemix_loss(logits: Tensor, targets: Tensor, labelled: int, lambda_u: float) -> MixedBatches:
    """Lx + lambda_u Lu + penalty; the first `labelled` rows of a mixed batch are labelled."""
    lx = F.cross_entropy(logits[:labelled], targets[:labelled])
    lu = unlabelled_loss(logits[labelled:], targets[labelled:])
    penalty = prior_penalty(logits)
    return MixedBatches(lx + lambda_u * lu + penalty, lx, lu, penalty)
