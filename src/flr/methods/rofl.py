"""RoFL: Yang et al., IEEE Intelligent Systems 2022.

*Robust Federated Learning with Noisy Labels.*
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from annotated_types import Ge, Lt
from torch import Tensor

from flr.aggregate.means import unweighted
from flr.core.arrays import Arrays
from flr.core.contract import MODEL, Batch, Client, Method, Reply, Server, Task
from flr.core.registry import register
from flr.core.traits import Declared, Traits
from flr.methods.shared.selection import forget_rate_at, noise_of, small_loss, take
from flr.models.inference import in_batches, logits_of
from flr.models.networks import embed

CENTROIDS = "rofl.centroids"
EPS = 1e-6  # the least weight of a centroid


def class_means(features: Tensor, y: Tensor, classes: int) -> Tensor:
    """The mean feature of each class (classes x d); zeros for a class without samples."""
    one_hot = F.one_hot(y, classes).to(features)
    return one_hot.T @ features / one_hot.sum(0).clamp_min(1)[:, None]


def update_centroids(f_k: Tensor, features: Tensor, y: Tensor) -> Tensor:
    """f_k <- (1 - rho) f_k + rho f_hat, rho = cos^2(f_k, f_hat) for each class."""
    f_hat = class_means(features, y, len(f_k))
    rho = F.cosine_similarity(f_k, f_hat, dim=1).square()[:, None]
    return (1 - rho) * f_k + rho * f_hat


def nearest_is_given(features: Tensor, f_k: Tensor, y: Tensor) -> Tensor:
    """Whether the centroid of largest cosine similarity is that of the given label (b, bool)."""
    similarity = F.normalize(features, dim=1) @ F.normalize(f_k, dim=1).T
    return similarity.argmax(1) == y


def centroid_loss(
    features: Tensor, f_k: Tensor, y: Tensor, mask: Tensor, reduction: Literal["mean", "sum"]
) -> Tensor:
    """mask_i (feature_i - f_k[y_i])^2, summed, or the mean over samples and features."""
    squares = mask[:, None] * (features - f_k[y]).square()
    return squares.mean() if reduction == "mean" else squares.sum()


def entropy(logits: Tensor) -> Tensor:
    """mean_i -sum_c p_c log p_c."""
    return -(logits.softmax(1) * logits.log_softmax(1)).sum(1).mean()


def centroid_weight(r: int, T_pl: int, lam_cen: float) -> float:  # noqa: N803 - the paper's letter
    """lam_cen * r / T_pl before T_pl, then lam_cen."""
    return lam_cen * min(r / T_pl, 1.0) if T_pl else lam_cen


def server_centroids(f_G: Tensor, f: Sequence[Tensor], eps: float = EPS) -> Tensor:  # noqa: N803
    """f_G,c <- sum_k a_kc f_k,c / sum_k a_kc, a_kc = max(cos(f_G,c, f_k,c), eps)."""
    each = torch.stack(list(f))  # clients x classes x d
    weights = F.cosine_similarity(f_G[None], each, dim=2).clamp_min(eps)[:, :, None]
    return (weights * each).sum(0) / weights.sum(0)


@register("rofl", title="RoFL", paper="Yang et al., IEEE Intelligent Systems 2022", year=2022)
@dataclass(frozen=True)
class RoFL(Method):
    """Sites and server share class centroids, which tell which easy samples to believe.

    Equation:
        S     = the int((1 - F(r)) b) samples of smallest CE
        mask_i = 1 if y_i's centroid in f_k is the nearest (by cosine)
        y'_i  = y_i if mask_i, else pseudo_i
        L     = mean_S CE(y', p) + lam_e * mean_S H(p)
                + lam_cen(r) * mean_S mask |feature - f_k[y]|^2 / d
        f_k,c <- (1 - rho) f_k,c + rho f^_c,   rho = cos^2(f_k,c, f^_c)
        server: w <- mean_k w_k
                f_c <- sum_k a_kc f_k,c / sum_k a_kc, a_kc = cos(f_c, f_k,c)

    pseudo_i is the received model's prediction; before T_pl (pseudo_rounds) it is replaced by the
    given label where a sample is in S. f^ are the class means of a batch's S; f_k starts as f,
    in the first round as the site's own class means.
    Leaves the site: weights, the number of samples, and a mean feature for each class.
    Readings: forget_rate is a number (the authors' choice), "estimate" (the share of the
    larger-loss component at the site) or "confident" (the share of labels that another class is
    confidently preferred to); F rises to it over `gradual` rounds. pseudo_rounds defaults to a
    tenth of the rounds.
    Differs: in the public code the third term is a sum over detached features, which trains
    nothing; detach_centroid_features = true does that. As a mean over samples alone, lam_cen = 1
    would draw all features of a wide layer to one point. Weights a below 1e-6 count as
    1e-6: they can be negative.
    """

    forget_rate: Annotated[float, Ge(0), Lt(1)] | Literal["estimate", "confident"] = 0.2
    gradual: Annotated[int, Ge(1)] = 10
    pseudo_rounds: Annotated[int, Ge(0)] | None = None
    lam_cen: Annotated[float, Ge(0)] = 1.0
    lam_e: Annotated[float, Ge(0)] = 0.8
    detach_centroid_features: bool = False

    traits = Traits(
        approach=("selection", "correction"),
        sends=(Declared(CENTROIDS, ("classes", "features"), "mean feature of each given class"),),
        receives=(Declared(CENTROIDS, ("classes", "features"), "the sites' centroids, averaged"),),
        cost="one forward and one backward pass per batch, one or two passes over all samples",
        individual=True,
        aggregates=True,
        owns=("batches",),  # nothing may mix samples: labels are believed or replaced one by one
    )

    def begin(self, c: Client) -> None:
        rate = noise_of(c, self.forget_rate)
        late = max(1, c.rounds // 10) if self.pseudo_rounds is None else self.pseudo_rounds
        c.scratch["rofl.forget"] = forget_rate_at(c.round, rate, self.gradual)
        c.scratch["rofl.early"] = c.round < late
        c.scratch["rofl.lam_cen"] = centroid_weight(c.round, late, self.lam_cen)
        c.scratch["rofl.pseudo"] = logits_of(c.model[0], c.data.x).argmax(1)
        c.scratch[CENTROIDS] = c.inbox[CENTROIDS].to(c.data.x)
        if c.round == 0:
            c.scratch[CENTROIDS] = own_centroids(c)

    def loss(self, c: Client, b: Batch) -> Tensor:
        logits, features = embed(c.model[0], b.x)
        rows = small_loss(
            F.cross_entropy(logits.detach(), b.y, reduction="none"), c.scratch["rofl.forget"]
        )
        easy, f_k = take(b, rows), c.scratch[CENTROIDS]
        fixed = features[rows].detach()
        mask = nearest_is_given(fixed, f_k, easy.y)
        if c.scratch["rofl.early"]:
            c.scratch["rofl.pseudo"][easy.index] = easy.y
        corrected = replace(easy, y=torch.where(mask, easy.y, c.scratch["rofl.pseudo"][easy.index]))
        c.scratch[CENTROIDS] = update_centroids(f_k, fixed, easy.y)
        detach = self.detach_centroid_features
        pull = centroid_loss(
            fixed if detach else features[rows], f_k, easy.y, mask, "sum" if detach else "mean"
        )
        lam_cen: float = c.scratch["rofl.lam_cen"]
        total = c.method.criterion(c, logits[rows], corrected) + lam_cen * pull
        total = total + self.lam_e * entropy(logits[rows])
        return total + c.method.regularize(c, 0, logits, b)

    def finish(self, c: Client) -> Arrays:
        return {CENTROIDS: c.scratch[CENTROIDS].cpu()}

    def start(self, s: Server) -> None:
        # the head is the last matrix of the network: classes x features
        head = [v for k, v in s.arrays.items() if k.startswith(MODEL + "0.") and v.dim() == 2][-1]
        s.arrays[CENTROIDS] = torch.randn(head.shape, generator=s.rng("rofl"))

    def reduce(self, s: Server, task: Task, replies: list[Reply]) -> None:
        s.arrays |= unweighted(replies, MODEL, s.arrays, s.buffers)
        s.arrays[CENTROIDS] = server_centroids(
            s.arrays[CENTROIDS], [r.arrays[CENTROIDS] for r in replies]
        )
        s.round += 1


def own_centroids(c: Client) -> Tensor:
    """The site's class means by the received network, in eval mode."""
    network = c.model[0]
    features = in_batches(network, lambda part: embed(network, part)[1], c.data.x)
    return class_means(features, c.data.y, c.data.classes)
