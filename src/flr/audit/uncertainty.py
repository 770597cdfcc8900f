"""How sure the audit is: true labels as they might be, drawn many times."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from flr.audit import noise_model
from flr.audit.evidence import Evidence
from flr.audit.scores import (
    FEDERATION,
    HALF,
    LEAST,
    Scores,
    blend,
    constant_prediction,
    rate_by_federation,
)

TIMES = 100
MISFIT = 0.6  # spread of the logit of a site's rate around the truth, seen on simulated sites
LIKELIEST = 50  # other classes of a sample that count in pairs
# Entries (samples x classes) to which the noise model is fitted again and again. With a part of the
# samples it strays more than with all of them, so the intervals of a large site are too wide.
_ENTRIES, _FEWEST = 10_000, 50

PairCounts = dict[tuple[int, int], float]  # (given, other class) -> number of labels


@dataclass(frozen=True, eq=False)
class Bootstrap:
    """`true`: a possible true class of each sample, so many times; times x n."""

    true: Tensor
    given: Tensor

    @cached_property
    def by_label(self) -> dict[int, Tensor]:
        """The columns of `true` of each given class."""
        order, counts = self.given.argsort(stable=True), self.given.bincount()
        parts = self.true[:, order].split(counts.tolist(), dim=1)
        return {label: part for label, part in enumerate(parts) if part.shape[1]}


def bootstrap(evidence: Evidence, scores: Scores) -> Bootstrap:
    """Draws true labels from the posterior, each time with another guess at the site's rate.

    A guess differs by which samples count (Bayesian bootstrap), by how far each view of the
    federation is trusted, and by how far such models were off where the truth was known.
    """
    rng = torch.Generator().manual_seed(0)  # the same findings each time for the same evidence
    others = scores.posterior.double().scatter(1, evidence.given[:, None], 0.0)
    others[others.sum(1) == 0] = 1.0  # never used, as nothing else is possible
    drawn = torch.multinomial(others, TIMES, replacement=True, generator=rng).T
    wrong = torch.stack(
        [noise_model.matched(scores.wrong, rate) for rate in _rates(evidence, scores, rng).tolist()]
    )
    is_wrong = torch.rand(wrong.shape, generator=rng, dtype=torch.float64) < wrong
    return Bootstrap(torch.where(is_wrong, drawn, evidence.given), evidence.given)


def _rates(evidence: Evidence, scores: Scores, rng: torch.Generator) -> Tensor:
    """Guesses at the site's rate: around that of the scores, as far as the noise model strays."""
    if constant_prediction(evidence) is not None:
        return torch.arange(TIMES) % 2  # none or all: the interval says that nothing is known
    most = max(_ENTRIES // len(evidence.classes), _FEWEST)
    rows = torch.randperm(len(evidence), generator=rng)[:most]
    names = [name for name in FEDERATION if name in evidence.views]
    # the model's share decides nothing but rows that the tables do not know
    views = torch.stack([blend(evidence, (name, "model"), (1.0, LEAST))[rows] for name in names])
    given = evidence.given[rows]
    refitted = []
    for _ in range(TIMES):
        trust = _exponential(len(views), rng)
        q = (trust[:, None, None] * views).sum(0) / trust.sum()
        refitted.append(rate_by_federation(q, given, weights=_exponential(len(given), rng)))
    logits = torch.logit(torch.tensor(refitted, dtype=torch.float64), eps=LEAST)
    chance = HALF * (logits - logits.median())  # as far as the scores believe it
    misfit = MISFIT * torch.randn(TIMES, generator=rng, dtype=torch.float64)
    return torch.sigmoid(torch.logit(scores.wrong.double().mean(), eps=LEAST) + chance + misfit)


def _exponential(n: int, rng: torch.Generator) -> Tensor:
    return -torch.rand(n, generator=rng, dtype=torch.float64).clamp(min=1e-12).log()


def pair_counts(given: Tensor, posterior: Tensor) -> PairCounts:
    """Expected numbers of labels, of each sample's likeliest classes."""
    classes = posterior.shape[1]
    others = posterior.double().scatter(1, given[:, None], 0.0)
    values, numbers = others.topk(min(LIKELIEST, classes), dim=1)
    codes, place = (given[:, None] * classes + numbers).reshape(-1).unique(return_inverse=True)
    sums = torch.zeros(len(codes), dtype=torch.float64).index_add_(0, place, values.reshape(-1))
    found = zip(codes.tolist(), sums.tolist(), strict=True)
    pairs = {divmod(code, classes): count for code, count in found if count}
    return {(y, z): count for (y, z), count in pairs.items() if y != z}
