"""FedRG's view of a batch: views that agree, clusters of directions, labels that fit them.

Wen et al., CVPR 2026. Features z have length 1; G clusters are von Mises-Fisher distributions.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from flr.methods.shared.mixtures import larger_mean

STRENGTH = 5.0  # of the prior of the clusters' shares; the background's is a tenth
SMOOTH = 0.5  # what is added to counts of labels


class Clusters(NamedTuple):
    """What a site knows of its features."""

    mu: Tensor  # G x d: directions, of length 1
    kappa: Tensor  # G: how narrow they are
    beta: Tensor  # G: their shares
    background: Tensor  # pi_0: the share of what belongs to none
    labels: Tensor  # M, classes x G: how the labels of a class spread over clusters


def nt_xent(h1: Tensor, h2: Tensor, temperature: float) -> Tensor:
    """SimCLR's loss of two views of a batch: each row has its other view among all to find."""
    h = F.normalize(torch.cat([h1, h2]), dim=1)
    itself = torch.eye(len(h), dtype=torch.bool, device=h.device)
    similar = (h @ h.T / temperature).masked_fill(itself, -torch.inf)
    other = torch.arange(len(h), device=h.device).roll(len(h1))
    return F.cross_entropy(similar, other)


def concentration(R: Tensor, d: int) -> Tensor:  # noqa: N803 - the paper's letter
    """kappa of directions whose mean has length R: R (d - R^2) / (1 - R^2), R in [1e-6, 1-1e-6]."""
    R = R.clamp(1e-6, 1 - 1e-6)  # noqa: N806
    return R * (d - R.square()) / (1 - R.square())


def reliability(kappa: Tensor, median: Tensor) -> Tensor:
    """r_i = kappa_i / median within [0.2, 2]."""
    return (kappa / median).clamp(0.2, 2.0)


def first_clusters(directions: Tensor, classes: int) -> Clusters:
    """Where it begins: given directions (G x d), kappa 5, equal shares, background 0.05, M 1/C."""
    G = len(directions)  # noqa: N806 - the paper's letter
    return Clusters(
        F.normalize(directions, dim=1),
        directions.new_full((G,), 5.0),
        directions.new_full((G,), 1 / G),
        directions.new_tensor(0.05),
        directions.new_full((classes, G), 1 / classes),
    )


def responsibilities(z: Tensor, r: Tensor, clusters: Clusters) -> Tensor:
    """b x (1 + G): softmax of half of [log pi_0, r_i kappa_g z_i . mu_g + log beta_g]."""
    near = r[:, None] * clusters.kappa * (z @ clusters.mu.T) + clusters.beta.log()
    background = clusters.background.log().expand(len(z), 1)
    return (torch.cat([background, near], 1) / 2).softmax(1)


def evidence(gamma: Tensor, y: Tensor, clusters: Clusters) -> Tensor:
    """e_i = 1 - sum_g M[y_i, g] gamma_ig, of responsibilities (b x (1 + G)): of a wrong label."""
    return 1 - (clusters.labels[y] * gamma[:, 1:]).sum(1)


def fitting(e: Tensor, threshold: float = 0.5) -> Tensor:
    """Which labels of a batch are believed (bool): the smaller mean of two Gaussians over e."""
    posterior = larger_mean(e, 0, 100, 1e-3, 1e-6, scale=False)
    if posterior is None:
        return torch.ones(len(e), dtype=torch.bool, device=e.device)
    return (1 - posterior >= threshold).to(e.device)


def moved_clusters(
    clusters: Clusters,
    z: Tensor,
    gamma: Tensor,
    y: Tensor,
    believed: Tensor,
    share: float = 0.1,
) -> Clusters:
    """The clusters after a batch: each moves this share of the way to what the batch says."""
    background, own = gamma[:, 0].sum(), gamma[:, 1:]
    total, counts = own.T @ z, own.sum(0)
    length = total.norm(dim=1) / (counts + 1e-8)
    labels = F.one_hot(y, len(clusters.labels)).to(z).T @ (own * believed[:, None])
    spread = (labels + SMOOTH) / (labels + SMOOTH).sum(1, keepdim=True)
    found = Clusters(
        F.normalize(total, dim=1),
        concentration(length, z.shape[1]).clamp(0.5, 100.0),
        (counts + STRENGTH / len(counts)) / (counts.sum() + STRENGTH),
        (background + STRENGTH / 10) / (counts.sum() + background + STRENGTH / 10),
        spread if believed.any() else clusters.labels,
    )
    mu, kappa, beta, pi, M = (  # noqa: N806 - the paper's letter
        (1 - share) * old + share * new for old, new in zip(clusters, found, strict=True)
    )
    M = M / M.sum(1, keepdim=True)  # noqa: N806
    return Clusters(F.normalize(mu, dim=1), kappa, beta, pi.clamp(0.001, 0.2), M)


def noisy_loss(logits: Tensor, T: Tensor, y: Tensor, believed: Tensor) -> Tensor:  # noqa: N803
    """The mean of -log (p T)_y over labels that are not believed; 0 where all are."""
    doubted = (~believed).to(logits)
    p = (logits.softmax(1) @ T).gather(1, y[:, None])[:, 0]
    return -((p + 1e-12).log() * doubted).sum() / doubted.sum().clamp_min(1)


def transition_rows(T: Tensor) -> Tensor:  # noqa: N803 - the paper's letter
    """max(T, 1e-6), rows made to sum to 1."""
    T = T.clamp_min(1e-6)  # noqa: N806
    return T / T.sum(1, keepdim=True)
