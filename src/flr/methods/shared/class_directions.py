"""Directions of classes in feature space, by which FedSIR knows clean sites and new labels.

Gholami et al., 2026. All of it is computed in float64: singular vectors are sensitive.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from flr.core.traits import Declared

ROWS = 12  # of a residual that are shared
KEPT = 10 / 11  # of the sum of singular values, which come before the residual
STRENGTH = 0.03  # least gap of two eigenvalues with which clients agree on a direction
EMPTY = 1e-9  # eigenvalues up to it belong to no residual


class ClassDirections(NamedTuple):
    """What a site knows of each class; zeros where it has no sample of one."""

    direction: Tensor  # classes x d: the first right singular vector
    residual: Tensor  # classes x ROWS x d: further ones; rows of zeros where there are fewer
    samples: Tensor  # classes
    gap: Tensor  # classes: (S_1 - S_2) / S_1
    ratio: Tensor  # classes: S_1 / sum S

    @classmethod
    def declared(cls, prefix: str, when: str) -> tuple[Declared, ...]:
        """The same as they are sent; but for directions, nothing is below 0."""
        whole = {"direction": ("classes", "features"), "residual": ("classes", ROWS, "features")}
        what = (
            "main direction of each given class",
            "further directions",
            "samples of each given class",
            "gap of the two largest singular values",
            "share of the largest one",
        )
        return tuple(
            Declared(
                prefix + name,
                whole.get(name, ("classes",)),
                text,
                when=when,
                least=None if name in whole else 0,
            )
            for name, text in zip(cls._fields, what, strict=True)
        )


def class_directions(h: Tensor, y: Tensor, classes: int) -> ClassDirections:
    """The spectrum of the features (n x d, not centred) of each given class."""
    found = ClassDirections(
        torch.zeros(classes, h.shape[1], dtype=torch.float64),
        torch.zeros(classes, ROWS, h.shape[1], dtype=torch.float64),
        *torch.zeros(3, classes, dtype=torch.float64),
    )
    for c in range(classes):
        own = h[y == c].double()
        if not own.any():
            continue
        _, S, right = torch.linalg.svd(own, full_matrices=False)  # noqa: N806
        residual = right[leading(S) :][:ROWS]
        found.direction[c], found.residual[c, : len(residual)] = right[0], residual
        second = S[1] if len(S) > 1 else 0.0
        found.samples[c], found.gap[c] = len(own), (S[0] - second) / S[0]
        found.ratio[c] = S[0] / S.sum()
    return found


def leading(S: Tensor, share: float = KEPT) -> int:  # noqa: N803 - the paper's letter
    """The least k with sum_{i <= k} S_i >= share * sum S."""
    return min(int((S.cumsum(0) < share * S.sum()).sum()) + 1, len(S))


def alikeness(directions: Tensor) -> Tensor:
    """u: mean and mean square of |v_c . v_c'| over pairs of classes (m x d); zeros without any."""
    m = len(directions)
    if m < 2:
        return directions.new_zeros(2)
    one, other = torch.triu_indices(m, m, 1)
    values = (directions @ directions.T)[one, other].abs()
    return torch.stack([values.mean(), values.square().mean()])


def agreed(sites: Sequence[ClassDirections], least: float = 100) -> tuple[Tensor, Tensor]:
    """The direction and residual of each class that clean sites agree on."""
    both = []
    for c in range(len(sites[0].samples)):
        v, V, n, gap, ratio = (  # noqa: N806 - the paper's letter
            torch.stack([site[part][c] for site in sites]).double() for part in range(5)
        )
        both.append(agreed_on(v, V, n, gap, ratio, least))
    return torch.stack([v for v, _ in both]), torch.stack([V for _, V in both])


def agreed_on(
    v: Tensor,
    V: Tensor,  # noqa: N803 - the paper's letter
    n: Tensor,
    gap: Tensor,
    ratio: Tensor,
    least: float = 100,
) -> tuple[Tensor, Tensor]:
    """Of one class: the top eigenvectors of sum w v v^T and sum w V^T V, w = n gap ratio.

    Only sites with n >= least count. Where there is none, or they do not agree (the two largest
    eigenvalues of the first are closer than STRENGTH), those of the site with the most samples.
    """
    largest = int(n.argmax())
    weights = n * gap * ratio * (n >= least)
    if weights.sum() <= 0:
        return v[largest], V[largest]
    weights = weights / weights.sum()
    values, vectors = torch.linalg.eigh(torch.einsum("k,kd,ke->de", weights, v, v))
    second = values[-2] if len(values) > 1 else 0.0
    if values[-1] - second < STRENGTH:
        return v[largest], V[largest]
    spread, axes = torch.linalg.eigh(torch.einsum("k,krd,kre->de", weights, V, V))
    rows = axes.T.flip(0)[:ROWS] * (spread.flip(0)[:ROWS, None] > EMPTY)
    return vectors[:, -1], F.pad(rows, (0, 0, 0, ROWS - len(rows)))


def direction_scores(h: Tensor, directions: Tensor) -> Tensor:
    """A_ic = |h_i . v_c| / |h_i| (n x classes)."""
    return (F.normalize(h, dim=1) @ directions.T).abs()


def residual_scores(h: Tensor, residuals: Tensor) -> Tensor:
    """B_ic = |V_c h_i| / sqrt(rows of V_c), h not normalised; infinite for a class without any."""
    rows = residuals.any(2).sum(1)
    lengths = torch.einsum("nd,crd->ncr", h, residuals).norm(dim=2)
    return torch.where(rows > 0, lengths / rows.clamp_min(1).to(h).sqrt(), torch.inf)


def relabelled(
    h: Tensor, y: Tensor, directions: Tensor, residuals: Tensor
) -> tuple[Tensor, Tensor]:
    """Labels where argmax A = argmin B, else those given; and which samples got none (bool)."""
    A, B = direction_scores(h, directions), residual_scores(h, residuals)  # noqa: N806
    largest, near = A.max(1)
    least, apart = B.min(1)
    agree = (near == apart) & (largest > 0) & least.isfinite()
    return torch.where(agree, near, y), ~agree
