"""What a site does for the choice of a model: counts its held-out labels that the model repeats."""

from __future__ import annotations

import torch

from flr.core.arrays import Arrays
from flr.core.contract import Client
from flr.core.traits import COUNTS
from flr.models.inference import predict


def validate(c: Client) -> Arrays:
    """Two numbers: labels repeated, and samples held out. `c.data` are those samples."""
    right = 0
    if len(c.data):
        right = int((predict(c.method, c.model, c.data.x) == c.data.y.cpu()).sum())
    return {COUNTS: torch.tensor([right, len(c.data)])}
