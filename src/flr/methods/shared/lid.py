"""FedCorr's view of a site: the spread of its predictions, its losses, what is relabelled."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

ROWS = 256  # of the table of distances that are in memory at once


def lid(o: Tensor, k: int = 20, repo_quirks: bool = False) -> Tensor:
    """Local intrinsic dimension of each row among its k nearest others; n, float64.

    LID_i = -k / (sum_j log(d_ij / (d_ik + 1e-6)) + 1e-6), Euclidean. With fewer than k others, k is
    their number (the authors' numerator stays k). A row that has a duplicate gets 0.
    """
    points = o.detach().to(torch.float32).to(torch.float64)  # as the authors', whatever comes in
    near = min(k, len(points) - 1)
    if near < 1:
        return points.new_zeros(len(points))
    parts = [_distances(part, points).topk(near + 1, largest=False) for part in points.split(ROWS)]
    d = torch.cat([part.values for part in parts])[:, 1:]  # the first is the row itself
    total = (d / (d[:, -1:] + 1e-6)).log().sum(1)
    return -(k if repo_quirks else near) / (total + 1e-6)


def _distances(part: Tensor, points: Tensor) -> Tensor:
    return torch.cdist(part, points, compute_mode="donot_use_mm_for_euclid_dist")


def output_losses(logits: Tensor, y: Tensor, repo_quirks: bool = False) -> Tensor:
    """CE of each sample; with the authors' second softmax it lies in a band of width 1."""
    return F.cross_entropy(logits.softmax(1) if repo_quirks else logits, y, reduction="none")


def candidates(losses: Tensor, level: float, relabel_ratio: float) -> Tensor:
    """The rows of the floor(n * level * relabel_ratio) largest losses."""
    count = int(len(losses) * level * relabel_ratio + 1e-9)  # 0.29 * 100 = 28.999...
    return losses.argsort(descending=True, stable=True)[:count]


def corrected(y: Tensor, p: Tensor, rows: Tensor, confidence: float) -> Tensor:
    """Labels, where a prediction among these rows is surer than `confidence` its arg-max."""
    top, guess = p[rows].max(1)
    sure = top > confidence
    return y.index_put((rows[sure],), guess[sure])
