"""How probable it is that each label is wrong, and what it should be instead."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from flr.audit import noise_model
from flr.audit.evidence import Evidence

VIEWS = ("global", "local", "model")
FEDERATION = ("global", "model")  # opinions of many sites
# Chosen on simulated sites of one seed, which no result in the documentation has:
TEMPERATURE = 3.0  # FLR sharpens predictions on purpose
HALF = 0.5  # how far the site's class shares and rate are believed: labels in question say them
OFFSET = 0.7  # added to the log odds of "wrong", as a model so cooled down doubts itself too much
# How much a rule of swapped classes must explain of what one rate leaves open, and in nats a label;
# a weak model's own confusions explain up to 0.17.
FAR_BETTER, LEAST_NATS = 0.18, 0.05
NEARLY_ALL, FEWEST_VOTES = 0.98, 20  # from when on a model that never varies is no accident
LEAST = 1e-6  # of a probability, before a logarithm


@dataclass(frozen=True, eq=False)
class Scores:
    """One row for each sample; `posterior` is what its true class may be, n x classes."""

    wrong: Tensor  # n: probability that the given label is wrong
    suggested: Tensor  # n, int64: the most probable other class
    confidence: Tensor  # n: probability of the suggested class
    posterior: Tensor
    margin: Tensor  # n: how much more the views give to the suggested class than to the given one


def score(evidence: Evidence) -> Scores:
    """The audit's own scores: what the views have in common, and the site's way of being wrong.

    log odds of "wrong" = log (1 - q(y)) / q(y) + log odds(eps) / 2 - log(C - 1) + offset, where
    q is what the views have in common, times the root of the site's class shares, and eps the rate
    of wrong labels by the views of the federation: the local view has been trained longest on
    these very labels, and repeats more of them. Where swapped classes explain the labels far
    better, the posterior is that of the rule.
    """
    given, seen = evidence.given, blend(evidence)
    if len(evidence.classes) == 1:
        return from_posterior(given, torch.ones_like(seen), seen)
    if (rule := rule_of(evidence)) is not None:
        return from_posterior(given, rule.posterior, seen)
    here = at_home(common(evidence, TEMPERATURE), given)
    if constant_opinion(evidence) is None:
        rate = rate_by_federation(blend(evidence, FEDERATION), given)
        right = here.gather(1, given[:, None])[:, 0]
        odds = torch.logit(1 - right, eps=LEAST**2) + shift(rate, len(evidence.classes))
        wrong = torch.sigmoid(odds)
    else:
        even = noise_model.one_rate(here, given)
        wrong = noise_model.matched(even.wrong(given), noise_model.UNKNOWN)
    return from_posterior(given, _with_wrong(here, given, wrong), seen)


def rule_of(evidence: Evidence) -> noise_model.Fitted | None:
    """Which classes are given for which, if that explains the labels far better than one rate."""
    if len(evidence.classes) > noise_model.MOST_CLASSES or constant_opinion(evidence) is not None:
        return None
    given, together = evidence.given, common(evidence, 1.0)
    even = noise_model.one_rate(at_home(together, given), given)
    rule = noise_model.by_rule(together, given)
    return rule if rule.fits - even.fits > max(-FAR_BETTER * even.fits, LEAST_NATS) else None


def rate_by_federation(q: Tensor, given: Tensor, *, weights: Tensor | None = None) -> float:
    """The share of wrong labels as the views of the federation have it."""
    return float(noise_model.one_rate(q, given, weights=weights).wrong(given).mean())


def shift(rate: float, classes: int) -> float:
    """What a rate of wrong labels adds to the log odds of every sample."""
    odds = float(torch.logit(torch.tensor(rate, dtype=torch.float64), eps=LEAST))
    return HALF * odds - math.log(classes - 1) + OFFSET


def blend(evidence: Evidence, among: Sequence[str] = VIEWS, shares: Sequence[float] = ()) -> Tensor:
    """Mean of the views, n x classes; rows that the tables do not know are the model's alone."""
    names = [name for name in among if name in evidence.views]
    shares = shares or [1.0] * len(names)
    total = torch.zeros(evidence.views["model"].shape, dtype=torch.float64)
    known = evidence.tables[:, None]
    for name, share in zip(names, shares, strict=True):
        view = evidence.views[name].double()
        # where(): what stands in a row without meaning may be anything, even NaN
        total += share * (view if name == "model" else torch.where(known, view, 0.0))
    return total / total.sum(1, keepdim=True)


def constant_opinion(evidence: Evidence) -> int | None:
    """The class that the federation says to nearly every sample, whatever its label; else None.

    Such a model has learned nothing, and would call most labels wrong. Where most labels are of
    that class, it may well be right.
    """
    votes = blend(evidence, FEDERATION).argmax(1).bincount()
    most, n = int(votes.argmax()), len(evidence)
    labels = int((evidence.given == most).sum())
    nearly_all = n >= FEWEST_VOTES and int(votes[most]) >= NEARLY_ALL * n
    return most if nearly_all and labels < n / 2 else None


def common(evidence: Evidence, temperature: float) -> Tensor:
    """What the views have in common: their geometric mean, to the power of 1 / temperature."""
    model = evidence.views["model"].double().clamp(min=LEAST).log()
    total, known = model.clone(), evidence.tables[:, None]
    tables = [view for name, view in evidence.views.items() if name != "model"]
    for view in tables:
        total += torch.where(known, view.double().clamp(min=LEAST).log(), model)
    return (total / (1 + len(tables)) / temperature).softmax(1)


def at_home(q: Tensor, given: Tensor) -> Tensor:
    """q times the root of the class shares at this site: what is rarely given is rarely true.

    The shares are drawn to even ones as far as chance alone can explain them (James and Stein).
    """
    n, classes = q.shape
    shares = given.bincount(minlength=classes).double() / n
    even = torch.full_like(shares, 1 / classes)
    chance, spread = (shares * (1 - shares)).sum() / n, (shares - even).square().sum()
    by_chance = (chance / spread.clamp(min=LEAST)).clamp(max=1)
    drawn = by_chance * even + (1 - by_chance) * shares
    joint = q * drawn.clamp(min=LEAST).pow(HALF)
    return joint / joint.sum(1, keepdim=True)


def _with_wrong(q: Tensor, given: Tensor, wrong: Tensor) -> Tensor:
    """Rows with 1 - wrong for the given class, and the others in the proportions of q."""
    own = given[:, None]
    rest = q.scatter(1, own, 0.0)
    rest = rest * (wrong[:, None] / rest.sum(1, keepdim=True).clamp(min=LEAST**2))
    return rest.scatter(1, own, (1 - wrong)[:, None])


def from_posterior(
    given: Tensor, posterior: Tensor, blend: Tensor, *, wrong: Tensor | None = None
) -> Scores:
    """Reads suggestion and confidence off the probabilities of the true class.

    `wrong` is 1 - posterior(given) where it is left out. With one class there is nothing to
    suggest: the suggestion is the given label, with confidence 0.
    """
    own, posterior = given[:, None], posterior.float()
    others = posterior.scatter(1, own, -1.0)
    best = others.argmax(1) if posterior.shape[1] > 1 else given
    margin = blend.gather(1, best[:, None]) - blend.gather(1, own)
    return Scores(
        wrong=(1 - posterior.gather(1, own)[:, 0]).clamp(0, 1) if wrong is None else wrong,
        suggested=best,
        confidence=others.gather(1, best[:, None])[:, 0].clamp(0, 1),
        posterior=posterior,
        margin=margin[:, 0],
    )
