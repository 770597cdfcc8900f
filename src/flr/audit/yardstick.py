"""cleanlab's scores on the same probabilities: the yardstick, and another choice of scorer."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from flr.audit.scores import Scores, from_posterior
from flr.errors import ConfigError

Quality = Literal["self_confidence", "normalized_margin", "confidence_weighted_entropy"]


def cleanlab_scores(given: Tensor, p: Tensor, *, quality: Quality = "self_confidence") -> Scores:
    """Label quality as cleanlab computes it; `wrong` is one minus it, and not calibrated.

    `p` is n x classes, best from a model that was not trained on these samples.
    """
    rank = _rank()
    rows = p.double()
    rows = rows / rows.sum(1, keepdim=True)
    found = rank.get_label_quality_scores(given.numpy(), rows.numpy(), method=quality)
    wrong = (1 - torch.from_numpy(found)).clamp(0, 1)
    return from_posterior(given, rows.float(), rows.float(), wrong=wrong.float())


def _rank() -> Any:
    try:
        from cleanlab import rank
    except ImportError:
        raise ConfigError(
            "The scorer cleanlab needs the package cleanlab; it is not installed. "
            'Install it with `pip install "flr[audit]"`, or leave --scorer out for flr\'s own.'
        ) from None
    return rank
