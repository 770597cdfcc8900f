"""How sure the audit is: true labels as they might be, drawn many times."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from flr.audit import noise_model
from flr.audit.evidence import Evidence
from flr.audit.noise_model import Fitted
from flr.audit.scores import RESEMBLING, Scores, doubted, outside, resemblance

TIMES = 100
# Standard deviation of the log odds of all labels around the truth, where the noise model is not
# that of the site: measured on digits and CIFAR-100 (docs/explanation/label-audit.md).
MISFIT = 0.2
OFF = 0.1  # of the log odds of the rate itself: on synthetic sites of 60 to 300 labels
LIKELIEST = 50  # other classes of a sample that count in pairs
_REFITS, _STEPS = 20, 5  # bootstrap samples, and steps of each from the fit of all
_ENTRIES = 100_000  # samples x classes in a refit; with fewer samples the spread is scaled
_LEAST = 1e-6

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


def bootstrap(evidence: Evidence, scores: Scores, found: Fitted | None, sure: bool) -> Bootstrap:
    """Draws true labels from the posterior, each time with another guess at the site's rate.

    A guess differs by which samples the noise model is fitted to (Bayesian bootstrap), by how many
    labels were given by resemblance, and by how far the site may be from any such model. Where
    the audit is not sure, none or all are wrong.
    """
    rng = torch.Generator().manual_seed(0)  # the same findings each time for the same evidence
    others = scores.posterior.double().scatter(1, evidence.given[:, None], 0.0)
    others[others.sum(1) == 0] = 1.0  # never used, as nothing else is possible
    drawn = torch.multinomial(others, TIMES, replacement=True, generator=rng).T
    if found is not None and sure:
        spread = misfit(evidence, found, rng)
        shifts = spread * torch.randn(TIMES, 1, generator=rng, dtype=torch.float64)
        base = torch.logit(scores.wrong.double(), eps=_LEAST) + _of_rival(evidence, found, rng)
        more = _resembling(found, rng)[:, None] * doubted(found, evidence.given)
        wrong = _off((torch.sigmoid(base + shifts) + more).clamp(0, 1), rng)
    elif len(evidence.classes) == 1:
        wrong = torch.zeros(TIMES, len(evidence), dtype=torch.float64)
    else:
        wrong = (torch.arange(TIMES)[:, None] % 2).expand(TIMES, len(evidence)).double()
    is_wrong = torch.rand(wrong.shape, generator=rng, dtype=torch.float64) < wrong
    return Bootstrap(torch.where(is_wrong, drawn, evidence.given), evidence.given)


def _off(wrong: Tensor, rng: torch.Generator) -> Tensor:
    """The same with rates that are off: sure probabilities would hardly move with log odds."""
    rates = torch.logit(wrong.mean(1), eps=_LEAST)
    rates = rates + OFF * torch.randn(len(rates), generator=rng, dtype=torch.float64)
    pairs = zip(wrong, torch.sigmoid(rates).tolist(), strict=True)
    return torch.stack([noise_model.matched(row, rate) for row, rate in pairs])


def _of_rival(evidence: Evidence, found: Fitted, rng: torch.Generator) -> Tensor:
    """Other log odds in the draws in which the fit from the other start is right, times x n."""
    drawn = torch.rand(TIMES, 1, generator=rng, dtype=torch.float64) < found.doubtful
    rival = found if found.rival is None else found.rival
    best, other = (torch.logit(f.wrong(evidence.given), eps=_LEAST) for f in (found, rival))
    return torch.where(drawn, (other - best)[None], 0.0)


def _resembling(found: Fitted, rng: torch.Generator) -> Tensor:
    """Shares of labels given by resemblance, less the one that scores assume.

    Drawn from the beta distribution with the known mean that falls from its mode at 0 to 0 at 1:
    anything is possible, less is likelier.
    """
    falls = 1 / RESEMBLING - 1
    share = 1 - torch.rand(TIMES, generator=rng, dtype=torch.float64) ** (1 / falls)
    even = torch.rand(TIMES, generator=rng, dtype=torch.float64) < found.evenly
    return torch.where(even, 0.0, share) - resemblance(found)


def misfit(evidence: Evidence, found: Fitted, rng: torch.Generator) -> float:
    """Standard deviation of a shift of all log odds: by chance, and by what the model is not."""
    classes, n = len(evidence.classes), len(evidence)
    rows = torch.randperm(n, generator=rng)[: max(_ENTRIES // classes, 1)]
    views = torch.stack([evidence.views[name][rows] for name in outside(evidence)])
    logs, given = views.double().clamp(min=_LEAST).log(), evidence.given[rows]
    start = noise_model.fit_with(logs, given, found.strength, start=part(found, rows), steps=_STEPS)
    odds = []
    for _ in range(_REFITS):
        counting = -torch.rand(len(rows), generator=rng, dtype=torch.float64).clamp(1e-12).log()
        again = noise_model.fit_with(
            logs, given, found.strength, counting=counting, start=start, steps=_STEPS
        )
        rate = (counting * again.wrong(given)).sum() / counting.sum()
        odds.append(float(torch.logit(rate, eps=_LEAST)))
    by_chance = torch.tensor(odds).var() * len(rows) / n
    return float((by_chance + MISFIT**2).sqrt())


def part(found: Fitted, rows: Tensor) -> Fitted:
    """The fit of some rows, to go on from."""
    return replace(found, posterior=found.posterior[rows], opinion=found.opinion[rows])


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
