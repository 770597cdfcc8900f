"""FedRN: Kim et al., CIKM 2022.

*FedRN: Exploiting k-Reliable Neighbors Towards Robust Federated Learning.*
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, NamedTuple

import torch
import torch.nn.functional as F
from annotated_types import Ge, Le
from torch import Tensor, nn

from flr.client.fit import freeze_norms_for_single_samples
from flr.core.arrays import Arrays
from flr.core.contract import MODEL, Batch, Client, Method, Reply, Server, Task
from flr.core.registry import register
from flr.core.traits import Declared, Traits
from flr.methods.shared.mixtures import clean_probability, min_max
from flr.methods.shared.network_copies import copied, flatten, renamed, unflatten, with_tuned_head
from flr.methods.shared.selection import batches_of, draw_seed, sample_losses, subset
from flr.methods.shared.warmup import endless_warmup
from flr.models.inference import logits_of

if TYPE_CHECKING:
    from flr.config import Config

IMAGE = 20220814  # seed of the Gaussian image that all sites answer to
LATER = "after the warm-up"


class Neighbours(NamedTuple):
    """The most reliable other clients, best first, and the scores."""

    chosen: Tensor  # K places
    scores: Tensor  # of the client itself, then of the chosen


def choose_neighbours(
    outputs: Tensor,
    expertise: Tensor,
    k: int,
    K: int,  # noqa: N803 - the paper's letter
    w_alpha: float,
) -> Neighbours:
    """score_j = w_alpha exp_j + (1 - w_alpha) sim_j, both min-max scaled; for j = k, sim is 1.

    `outputs` (clients x C) are the answers to the shared image; sim is their cosine with row k.
    """
    similarity = F.cosine_similarity(outputs[k][None], outputs, dim=1)
    scores = w_alpha * min_max(expertise) + (1 - w_alpha) * min_max(similarity)
    others = scores.clone()
    others[k] = -torch.inf
    chosen = others.argsort(descending=True, stable=True)[: min(K, len(scores) - 1)]
    own = w_alpha * min_max(expertise)[k] + (1 - w_alpha)
    return Neighbours(chosen, torch.cat([own[None], scores[chosen]]))


def joint_probability(p: Sequence[Tensor], scores: Tensor) -> Tensor:
    """sum_j score_j p_j / sum_j score_j; the plain mean where all scores are 0."""
    weights = scores if scores.sum() > 0 else torch.ones_like(scores)
    return (weights[:, None] * torch.stack(list(p))).sum(0) / weights.sum()


def believed(p: Tensor) -> Tensor:
    """The samples with p > 0.5; all where there are none."""
    return (p > 0.5).nonzero()[:, 0] if (p > 0.5).any() else torch.arange(len(p), device=p.device)


@register("fedrn", title="FedRN", paper="Kim et al., CIKM 2022", year=2022)
@dataclass(frozen=True)
class FedRN(Method):
    """Models of reliable neighbours help a site to tell which of its samples are clean.

    Equation:
        sim_kj   = cos(output_k, output_j) on one Gaussian image
        score_kj = w_alpha * expertise_j + (1 - w_alpha) * sim_kj
                   (both scaled to [0, 1] over clients; own sim = 1)
        p_j,i    = P(smaller-mean component | CE_i under model j)
        p_i      = sum_j score_kj p_j,i / sum_j score_kj
                   over the site's own last model and the K best others
        L        = mean CE over samples with p_i > 0.5

    Before their mixture is fitted, the heads of neighbours' models are trained for an epoch on
    the samples that the site's own last model finds clean. The warm-up is FedAvg (warmup_rounds,
    by default a fifth of the rounds, at least one).
    State: the site's last model.
    Leaves the site: weights, the number of samples, accuracy on the site's own labels, and the
    logits of one Gaussian image. The server keeps them, and gives a site's model to other sites.
    Differs: clients that have not answered yet are nobody's neighbours, and choose by the
    received model alone. Neighbours' BatchNorm learns the site's statistics with the head (the
    authors' networks have no running ones).
    """

    neighbours: Annotated[int, Ge(1)] = 2
    w_alpha: Annotated[float, Ge(0), Le(1)] = 0.5
    warmup_rounds: Annotated[int, Ge(1)] | None = None

    @cached_property
    def traits(self) -> Traits:
        """How many models a site receives depends on `neighbours`."""
        models = (
            Declared(f"neighbour.{i}.*", ("weights",), "the last model of another site", when=LATER)
            for i in range(self.neighbours)
        )
        scores = (self.neighbours + 1,), "weights of own model and neighbours"
        return Traits(
            approach=("selection",),
            changes_inputs=True,
            sends=(
                Declared(
                    "fedrn.expertise",
                    (),
                    "accuracy of the local model on the given labels",
                    least=0,
                ),
                Declared("fedrn.output", ("classes",), "its logits for a Gaussian image"),
            ),
            receives=(*models, Declared("fedrn.scores", *scores, when=LATER)),
            keeps=(Declared("fedrn.own", ("weights",), "the site's last model"),),
            individual=True,
            cost=(
                "one forward and one backward pass per batch of the samples found clean; after the "
                "warm-up also an epoch of the head and a forward pass of all samples for each "
                "neighbour"
            ),
        )

    def check(self, config: Config) -> Iterable[str]:
        return endless_warmup(self.warmup_rounds, config.rounds, "a fifth")

    def warmup(self, rounds: int) -> int:
        """Rounds of FedAvg."""
        return max(1, round(rounds / 5)) if self.warmup_rounds is None else self.warmup_rounds

    def begin(self, c: Client) -> None:
        if c.round < self.warmup(c.rounds):
            return
        kept = c.state.get("fedrn.own")
        own = c.model[0] if kept is None else copied(c.model[0], unflatten(c.model[0], kept))
        p = [self.clean(c, own)]
        for i in range(self.neighbours):
            if received := renamed(c.inbox, f"neighbour.{i}.", ""):
                neighbour = with_tuned_head(c, copied(c.model[0], received), believed(p[0]))
                p.append(self.clean(c, neighbour))
        scores = c.inbox.get("fedrn.scores", torch.ones(1))[: len(p)]
        rows = believed(joint_probability(p, scores.to(p[0])))
        c.scratch["fedrn.rows"] = rows
        freeze_norms_for_single_samples(subset(c, rows))

    def clean(self, c: Client, network: nn.Module) -> Tensor:
        """The probability of each sample to be clean, as one network sees it."""
        return clean_probability(sample_losses(network, c.data), draw_seed(c), max_iter=100)

    def batches(self, c: Client, epoch: int) -> Iterator[Batch]:
        rows = c.scratch.get("fedrn.rows")
        return c.make_batches(c) if rows is None else batches_of(c, rows)

    def finish(self, c: Client) -> Arrays:
        network, image = c.model[0], torch.Generator().manual_seed(IMAGE)
        c.state["fedrn.own"] = flatten(network)
        noise = torch.randn((1, *c.data.x.shape[1:]), generator=image).to(c.data.x)
        right = logits_of(network, c.data.x).argmax(1) == c.data.y
        return {
            "fedrn.expertise": right.float().mean().cpu(),
            "fedrn.output": logits_of(network, noise)[0].float().cpu(),
        }

    def plan(self, s: Server) -> Task | None:
        task = super().plan(s)
        if task is None or s.round < self.warmup(s.rounds):
            return task
        return replace(task, extra={k: self.for_client(s, k) for k in task.clients})

    def for_client(self, s: Server, k: int) -> Arrays:
        """The models of a client's neighbours and the scores; nothing for one not heard of yet."""
        known = [j for j in range(s.clients) if f"fedrn.{j}.output" in s.state]
        if k not in known:
            return {}
        answers, expertise = (
            torch.stack([s.state[f"fedrn.{j}.{what}"] for j in known])
            for what in ("output", "expertise")
        )
        place, K = known.index(k), self.neighbours  # noqa: N806
        found = choose_neighbours(answers, expertise, place, K, self.w_alpha)
        extra = {"fedrn.scores": F.pad(found.scores, (0, K + 1 - len(found.scores)))}
        for i, j in enumerate(found.chosen.tolist()):
            extra |= renamed(s.state, f"fedrn.{known[j]}.{MODEL}", f"neighbour.{i}.")
        return extra

    def reduce(self, s: Server, task: Task, replies: list[Reply]) -> None:
        super().reduce(s, task, replies)
        for r in replies:
            for what in ("output", "expertise"):
                s.state[f"fedrn.{r.client}.{what}"] = r.arrays[f"fedrn.{what}"]
            s.state |= renamed(r.arrays, MODEL + "0.", f"fedrn.{r.client}.{MODEL}")
