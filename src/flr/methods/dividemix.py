"""DivideMix: Li et al., ICLR 2020.

*DivideMix: Learning with Noisy Labels as Semi-supervised Learning.*
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import torch
from annotated_types import Ge, Gt, Lt
from torch import Tensor, nn

from flr.core.contract import Batch, Client, Method
from flr.core.registry import register
from flr.core.traits import Traits
from flr.methods.mixup import as_rows, draw_weight, mix
from flr.methods.shared import mixmatch
from flr.methods.shared.mixtures import clean_probability
from flr.methods.shared.selection import draw_seed, sample_losses, two_views
from flr.methods.shared.warmup import endless_warmup
from flr.models.inference import evaluating

if TYPE_CHECKING:
    from flr.config import Config

Views = tuple[Batch, Batch]


@dataclass(frozen=True, kw_only=True)
class MixMatch(Batch):
    """Mixed rows [x, x2, u, u2] for one network; the labelled ones once more by themselves."""

    net: int
    labelled: Batch
    lam_u: float


@register("dividemix", title="DivideMix", paper="Li et al., ICLR 2020", year=2020)
@dataclass(frozen=True)
class DivideMix(Method):
    """Two networks split the samples for each other; labels that look wrong are guessed anew.

    Equation:
        w_i = P(smaller-mean component | CE_i), for each network and epoch
        labelled if w_i of the other network > threshold, else unlabelled
        q_x = sharpen(w y + (1 - w) mean of 2 views by this network)
        q_u = sharpen(mean of 2 views by both networks)
        l ~ Beta(alpha, alpha), l <- max(l, 1 - l); rows are mixed by l
        L = CE(q_x, p_x) + lam_u(t) * mean (p_u - q_u)^2
            + sum_c 1/C * log(1/C / mean p_c)
        lam_u(t) = lam_u * clip((t - warm-up) / rampup, 0, 1), t in rounds

    Both networks are averaged, each by itself; for predictions their logits are added.
    Leaves the site: weights of both networks and the number of samples.
    Readings: the warm-up is CE on all samples, by default for a tenth of the rounds; with
    penalise_confidence (meant for asymmetric noise) also + mean sum_c p_c log p_c. Other methods'
    regularisers see the labelled rows.
    Differs: an epoch without labelled samples is CE on all of them, one without unlabelled samples
    has no second term (the authors' code stops). Losses that cannot be split count as
    clean. A single sample is guessed in eval mode.
    """

    lam_u: Annotated[float, Ge(0)] = 25.0
    temperature: Annotated[float, Gt(0)] = 0.5
    alpha: Annotated[float, Gt(0)] = 4.0
    threshold: Annotated[float, Ge(0), Lt(1)] = 0.5
    rampup: Annotated[int, Ge(1)] = 16
    warmup_rounds: Annotated[int, Ge(0)] | None = None
    penalise_confidence: bool = False

    traits = Traits(
        approach=("selection", "correction"),
        changes_inputs=True,
        networks=2,
        cost=(
            "per batch and network one forward and one backward pass over four rows a sample, and "
            "six forward passes to guess labels; per epoch one forward pass over all samples"
        ),
    )

    def check(self, config: Config) -> Iterable[str]:
        return endless_warmup(self.warmup_rounds, config.rounds, "a tenth")

    def warmup(self, rounds: int) -> int:
        """The rounds of plain cross-entropy, at least one: random networks split at random."""
        return max(1, round(rounds / 10)) if self.warmup_rounds is None else self.warmup_rounds

    def batches(self, c: Client, epoch: int) -> Iterator[Batch]:
        if c.round < self.warmup(c.rounds):
            yield from c.make_batches(c)
            return
        losses = [sample_losses(network, c.data) for network in c.model]
        clean = [clean_probability(each, draw_seed(c)) for each in losses]
        for net in range(2):
            yield from self.divided(c, net, clean[1 - net], epoch)

    def divided(self, c: Client, net: int, w: Tensor, epoch: int) -> Iterator[Batch]:
        """One epoch of one network, by the other one's split."""
        labelled, unlabelled = ((w > self.threshold) == half for half in (True, False))
        if not labelled.any():
            yield from (replace(b, networks=(net,)) for b in c.make_batches(c))
            return
        guessed = endless_views(c, unlabelled.nonzero()[:, 0])
        seen, count = 0, int(labelled.sum())
        for x in two_views(c, labelled.nonzero()[:, 0]):
            t = c.round + (epoch + seen / count) / c.train.epochs
            lam_u = mixmatch.ramp(t, self.warmup(c.rounds), self.rampup, self.lam_u)
            yield self.mixed(c, net, w, x, next(guessed, ()), lam_u)
            seen += len(x[0].x)

    @torch.no_grad()
    def mixed(
        self, c: Client, net: int, w: Tensor, x: Views, u: Views | tuple[()], lam_u: float
    ) -> MixMatch:
        """Guesses labels with the networks as they are now, and mixes all rows."""
        p_x = [guess(c.model[net], view.x) for view in x]
        y = as_rows(x[0].y, c.data.classes, p_x[0].dtype)
        targets = [mixmatch.co_refine(y, w[x[0].index].to(y), p_x, self.temperature)] * 2
        if u:
            p_u = [guess(c.model[net], view.x) for view in u]
            with evaluating(c.model[1 - net]):
                p_u += [c.model[1 - net](view.x).softmax(1) for view in u]
            targets += [mixmatch.co_guess(p_u, self.temperature)] * 2
        views = (*x, *u)
        x_all, index = torch.cat([v.x for v in views]), torch.cat([v.index for v in views])
        rows = Batch(x_all, torch.cat(targets), index)
        partner = torch.randperm(len(rows.y), generator=c.rng).to(rows.y.device)
        drawn = draw_weight(self.alpha, c.rng)
        weight, n = max(drawn, 1 - drawn), 2 * len(y)
        xs, ys = (mix(values, partner, weight) for values in (rows.x, rows.y))
        labelled = Batch(xs[:n], ys[:n], rows.index[:n], (net,), rows, partner[:n], weight)
        return MixMatch(xs, ys, rows.index, (net,), net=net, labelled=labelled, lam_u=lam_u)

    def loss(self, c: Client, b: Batch) -> Tensor:
        if isinstance(b, MixMatch):
            logits, n = c.model[b.net](b.x), len(b.labelled.x)
            lx = c.method.criterion(c, logits[:n], b.labelled)
            lu = mixmatch.unlabelled_loss(logits[n:], b.y[n:])
            total = lx + b.lam_u * lu + mixmatch.prior_penalty(logits)
            return total + c.method.regularize(c, b.net, logits[:n], b.labelled)
        total = torch.zeros((), device=b.x.device)
        for net in b.networks or range(2):
            logits = c.model[net](b.x)
            total = total + c.method.criterion(c, logits, b)
            total = total + c.method.regularize(c, net, logits, b)
            if self.penalise_confidence:
                total = total + mixmatch.confidence_penalty(logits)
        return total

    def predict(self, models: nn.ModuleList, x: Tensor) -> Tensor:
        logits: Tensor = models[0](x) + models[1](x)
        return logits


def guess(network: nn.Module, x: Tensor) -> Tensor:
    """In train mode, as in the authors' code; BatchNorm has no variance of a single sample."""
    with evaluating(network) if len(x) < 2 else nullcontext():
        p: Tensor = network(x).softmax(1)
    return p


def endless_views(c: Client, rows: Tensor) -> Iterator[Views]:
    """Two views of some samples, epoch after epoch; ends at once if there are none."""
    while len(rows):
        yield from two_views(c, rows)
