"""FedRG: Wen et al., CVPR 2026.

*FedRG: Unleashing the Representation Geometry for Federated Learning with Noisy Clients.*
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Annotated

import torch
import torch.nn.functional as F
from annotated_types import Ge, Gt, Le
from torch import Tensor, nn
from torch.nn.utils import skip_init

from flr.client import optimizer
from flr.core.arrays import Arrays
from flr.core.contract import MODEL, Batch, Client, Method, Reply, Server, Task
from flr.core.registry import register
from flr.core.traits import Declared, Traits
from flr.methods.sce import sce_loss
from flr.methods.shared.feature_clusters import (
    Clusters,
    concentration,
    evidence,
    first_clusters,
    fitting,
    moved_clusters,
    noisy_loss,
    nt_xent,
    reliability,
    responsibilities,
    transition_rows,
)
from flr.methods.shared.network_copies import renamed
from flr.methods.shared.selection import two_views
from flr.methods.shared.warmup import endless_warmup
from flr.models.networks import embed, features

if TYPE_CHECKING:
    from flr.config import Config

PROJECTOR = "fedrg.projector."
KEPT = tuple(f"fedrg.{name}" for name in Clusters._fields)
MEDIAN, TRANSITION = "fedrg.median", "fedrg.transition"
OTHER, CLUSTERS, PART, STEPS = "fedrg.other", "fedrg.clusters", "fedrg.part", "fedrg.steps"
OUTPUTS = 128  # of the projector
LOG_ZERO = math.log(1e-4)  # of the reverse cross-entropy
FIRST, LATER = "in stage 1", "in stage 2"
LAYERS = tuple(
    Declared(PROJECTOR + name, shape, "projector", when=FIRST)
    for name, shape in (
        ("0.weight", ("features", "features")),
        ("0.bias", ("features",)),
        ("2.weight", (OUTPUTS, "features")),
        ("2.bias", (OUTPUTS,)),
    )
)


@register("fedrg", title="FedRG", paper="Wen et al., CVPR 2026", year=2026)
@dataclass(frozen=True)
class FedRG(Method):
    """Learns features without labels, then believes labels that fit the clusters of features.

    Equation:
        1  L = NT-Xent(g(h), g(h')), two views, positives are the other view;
           g: a projector, averaged with the network
        2  z = h / |h|;  kap_i = Ainv(|z_i + z'_i| / 2)
           Ainv(R) = R (d - R^2) / (1 - R^2)
           r_i = kap_i / med within [0.2, 2], med a running median
           gamma_i = softmax of half of
                     [log pi_0, r_i kappa_g z_i . mu_g + log beta_g]
           e_i = 1 - sum_g M[y_i, g] gamma_ig
           believed: smaller mean of two Gaussians over e of the batch
           L = weight mean_i (0.1 CE + RCE)
               + mean over not believed of -log (p_i T)_{y_i}
           T <- max(T, 1e-6), rows to sum 1               after each step
           mu, kappa, beta, pi_0, M move by a tenth to what gamma says

    M moves to the counts of believed labels in clusters. The geometry trains nothing: it decides
    which labels are believed. T begins as identity, and is trained with the network. Stage 1 has
    warmup_rounds, by default three tenths of them; until it ends no head is trained, and accuracy
    is that of guessing. There are as many clusters as classes unless `clusters` says otherwise.
    RCE takes log 0 as log 1e-4. Labels are predicted without T.
    State: the clusters, the running median and T.
    Leaves the site: weights, the number of samples; in stage 1 the projector.
    Differs: the projector is of two layers, d and 128 wide, without BatchNorm; the authors' has
    4096 and 2048 with it. Batches of one are kept. The optimiser is the config's in both stages.
    """

    warmup_rounds: Annotated[int, Ge(1)] | None = None
    temperature: Annotated[float, Gt(0)] = 0.07
    clusters: Annotated[int, Ge(1)] | None = None
    threshold: Annotated[float, Ge(0), Le(1)] = 0.5
    weight: Annotated[float, Ge(0)] = 0.4

    @cached_property
    def traits(self) -> Traits:
        """How much a site keeps depends on `clusters`."""
        G = "classes" if self.clusters is None else self.clusters  # noqa: N806 - the paper's letter
        kept: tuple[tuple[str, tuple[int | str, ...], str], ...] = (
            (KEPT[0], (G, "features"), "directions of clusters"),
            (KEPT[1], (G,), "how narrow clusters are"),
            (KEPT[2], (G,), "shares of clusters"),
            (KEPT[3], (), "share of no cluster"),
            (KEPT[4], ("classes", G), "labels in clusters"),
            (MEDIAN, (), "running median of how views agree"),
            (TRANSITION, ("classes", "classes"), "how labels go wrong"),
        )
        return Traits(
            approach=("selection", "loss"),
            sends=LAYERS,
            receives=LAYERS,
            keeps=tuple(Declared(*one, when=LATER) for one in kept),
            cost="two forward passes and one or two backward passes per batch",
            owns=("criterion",),  # its cross-entropies are its own
            note="In the first stage no labels are learned: accuracy is that of guessing.",
        )

    def check(self, config: Config) -> Iterable[str]:
        return endless_warmup(self.warmup_rounds, config.rounds, "three tenths")

    def warmup(self, rounds: int) -> int:
        """Rounds of stage 1."""
        return max(1, round(0.3 * rounds)) if self.warmup_rounds is None else self.warmup_rounds

    # ---- at the client

    def begin(self, c: Client) -> None:
        first = c.round < self.warmup(c.rounds)
        part = projector(c) if first else transition(c)
        c.scratch[PART] = part.to(next(c.model.parameters()))  # its device and type
        decay = c.train.weight_decay if first else 0.0
        train = c.train.model_copy(update={"weight_decay": decay})
        alone = replace(c, model=nn.ModuleList([part]), train=train, state={})
        c.scratch[STEPS] = optimizer.make(alone, 0)
        if not first:
            c.scratch[CLUSTERS] = self.clusters_of(c)
            c.scratch[MEDIAN] = c.state.get(MEDIAN)

    def clusters_of(self, c: Client) -> Clusters:
        """As the site has kept them, or where they begin."""
        like = next(c.model.parameters())
        if KEPT[0] in c.state:
            return Clusters(*(c.state[name].to(like) for name in KEPT))
        size = (self.clusters or c.data.classes, features(c.model[0]))
        return first_clusters(torch.randn(size, generator=c.rng).to(like), c.data.classes)

    def batches(self, c: Client, epoch: int) -> Iterator[Batch]:
        rows = torch.arange(len(c.data), device=c.data.y.device)
        for b, other in two_views(c, rows):
            c.scratch[OTHER] = other.x
            yield b
            c.scratch[STEPS].step()
            for weights in c.scratch[PART].parameters():
                weights.grad = None
            self.keep_rows(c)
        self.keep_rows(c)  # once more, as the authors' code does

    @torch.no_grad()
    def keep_rows(self, c: Client) -> None:
        """Rows of T stay distributions; the projector has none."""
        if CLUSTERS in c.scratch:
            T = c.scratch[PART][0]  # noqa: N806 - the paper's letter
            T.copy_(transition_rows(T))

    def loss(self, c: Client, b: Batch) -> Tensor:
        part, other = c.scratch[PART], c.scratch[OTHER]
        logits, h = embed(c.model[0], b.x)
        if CLUSTERS not in c.scratch:
            h_other = embed(c.model[0], other)[1]
            return nt_xent(part(h), part(h_other), self.temperature)
        with torch.no_grad():
            z, z_other = (F.normalize(f, dim=1) for f in (h, embed(c.model[0], other)[1]))
            believed = self.believed(c, z, z_other, b.y)
        total = self.weight * sce_loss(logits, b.y, 0.1, 1.0, LOG_ZERO)
        total = total + noisy_loss(logits, part[0], b.y, believed)
        return total + c.method.regularize(c, 0, logits, b)

    def believed(self, c: Client, z: Tensor, z_other: Tensor, y: Tensor) -> Tensor:
        """Which labels fit; the median and the clusters go on."""
        kappa = concentration(((z + z_other) / 2).norm(dim=1), z.shape[1])
        before: Tensor | None = c.scratch[MEDIAN]
        now = kappa.median()
        median = now if before is None else 0.9 * before.to(now) + 0.1 * now
        clusters: Clusters = c.scratch[CLUSTERS]
        gamma = responsibilities(z, reliability(kappa, median), clusters)
        fits = fitting(evidence(gamma, y, clusters), self.threshold)
        c.scratch[MEDIAN] = median
        c.scratch[CLUSTERS] = moved_clusters(clusters, z, gamma, y, fits)
        return fits

    def finish(self, c: Client) -> Arrays:
        part = {name: value.detach().cpu() for name, value in c.scratch[PART].state_dict().items()}
        if CLUSTERS not in c.scratch:
            return {PROJECTOR + name: value for name, value in part.items()}
        kept = {name: value.cpu() for name, value in zip(KEPT, c.scratch[CLUSTERS], strict=True)}
        c.state |= kept | {MEDIAN: c.scratch[MEDIAN].cpu(), TRANSITION: part["0"]}
        return {}

    # ---- at the server

    def start(self, s: Server) -> None:
        # the head is the last matrix of the network: classes x features
        head = [v for k, v in s.arrays.items() if k.startswith(MODEL + "0.") and v.dim() == 2][-1]
        rng, width = s.rng("fedrg"), head.shape[1]
        for layer in LAYERS:  # as torch's own linear layers begin
            drawn = torch.rand(layer.size({"features": width}), generator=rng)
            s.arrays[layer.name] = (2 * drawn - 1) / math.sqrt(width)

    def reduce(self, s: Server, task: Task, replies: list[Reply]) -> None:
        s.arrays |= s.aggregate(replies, PROJECTOR, s.arrays)  # nothing in stage 2
        super().reduce(s, task, replies)
        if s.round >= self.warmup(s.rounds):
            for layer in LAYERS:
                s.arrays.pop(layer.name, None)


def projector(c: Client) -> nn.Module:
    """g, as received: what stands behind the features in stage 1 only."""
    d = features(c.model[0])
    # without initial weights: they would be drawn from torch's own generator
    first, last = (skip_init(nn.Linear, d, width) for width in (d, OUTPUTS))
    made = nn.Sequential(first, nn.ReLU(), last)
    made.load_state_dict(renamed(c.inbox, PROJECTOR, ""))
    return made


def transition(c: Client) -> nn.Module:
    """T, as kept: how labels of this site go wrong, in rows that sum to 1."""
    return nn.ParameterList([c.state.get(TRANSITION, torch.eye(c.data.classes)).clone()])
