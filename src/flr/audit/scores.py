"""How probable it is that each label is wrong, and what it should be instead."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from flr.audit import noise_model
from flr.audit.evidence import Evidence
from flr.core.errors import ConfigError

VIEWS = ("global", "local", "model")
FEDERATION = ("global", "model")  # what many sites have to say
# Chosen on simulated sites of one seed (docs/explanation/label-audit.md):
TEMPERATURE = 3.0  # FLR sharpens predictions on purpose
HALF = 0.5  # how far the site's class shares and rate are believed: labels in question say them
RAREST = 0.1  # no class is called rarer than this share of the most common one
OFFSET = 0.7  # added to the log odds of "wrong", as a model so cooled down doubts itself too much
CANDIDATES = 10  # classes that a sample may have: cooled down, more would drown the prediction
# How much a rule of swapped classes must explain of what one rate leaves open, and in nats a label;
# a weak model's own confusions explain up to 0.14.
FAR_BETTER, LEAST_NATS = 0.16, 0.05
NEARLY_ALL, FEWEST_VOTES = 0.98, 20  # from when on a model that never varies is no accident
LEAST = 1e-6  # of a probability, before a logarithm

Quality = Literal["self_confidence", "normalized_margin", "confidence_weighted_entropy"]


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
    better, the posterior is that of the rule; where the model never saw these labels, it needs no
    cooling, and the posterior is that of one rate.
    """
    given, seen = evidence.given, blend(evidence)
    sharp = at_home(common(evidence, 1.0), given)
    if len(evidence.classes) == 1:
        return from_posterior(given, torch.ones_like(seen), seen)
    if constant_prediction(evidence) is not None:
        even = noise_model.one_rate(sharp, given).wrong(given)
        wrong = noise_model.matched(even, noise_model.UNKNOWN)
    elif (rule := rule_of(evidence)) is not None:
        return from_posterior(given, rule.posterior, seen, wrong=rule.wrong(given))
    elif not evidence.trained:
        wrong = noise_model.one_rate(sharp, given).wrong(given)
    else:
        wrong = torch.sigmoid(_log_odds(evidence))
    return from_posterior(given, _with_wrong(sharp, given, wrong), seen, wrong=wrong)


def _log_odds(evidence: Evidence) -> Tensor:
    given = evidence.given
    rate = rate_by_federation(blend(evidence, FEDERATION), given)
    right = at_home(common(evidence, TEMPERATURE), given).gather(1, given[:, None])[:, 0]
    of_rate = torch.logit(torch.tensor(rate, dtype=torch.float64), eps=LEAST)
    others = min(len(evidence.classes), CANDIDATES) - 1
    return torch.logit(1 - right, eps=LEAST**2) + HALF * of_rate - math.log(others) + OFFSET


def rule_of(evidence: Evidence) -> noise_model.Fitted | None:
    """Which classes are given for which, if that explains the labels far better than one rate.

    One rate may draw its wrong labels as often as the site gives them, so that a rule has to
    explain more than that: "everything is given as class 3" is none.
    """
    if len(evidence.classes) > noise_model.MOST_CLASSES:
        return None
    given, together = evidence.given, common(evidence, 1.0)
    shares = shares_of(given, len(evidence.classes))
    even = noise_model.one_rate(at_home(together, given), given, shares=shares)
    rule = noise_model.by_rule(together, given)
    return rule if rule.fits - even.fits > max(-FAR_BETTER * even.fits, LEAST_NATS) else None


def rate_by_federation(q: Tensor, given: Tensor, *, weights: Tensor | None = None) -> float:
    """The share of wrong labels as the views of the federation have it."""
    wrong = noise_model.one_rate(q, given, weights=weights).wrong(given)
    return float(wrong.mean() if weights is None else (weights * wrong).sum() / weights.sum())


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


def constant_prediction(evidence: Evidence) -> int | None:
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
    """What the views have in common: their geometric mean, to the power of 1 / temperature.

    Of many classes, the given one and the likeliest others are left.
    """
    model = evidence.views["model"].double().clamp(min=LEAST).log()
    total, known = model.clone(), evidence.tables[:, None]
    tables = [view for name, view in evidence.views.items() if name != "model"]
    for view in tables:
        total += torch.where(known, view.double().clamp(min=LEAST).log(), model)
    if total.shape[1] > CANDIDATES:
        first = total.scatter(1, evidence.given[:, None], 1.0)  # logarithms are not above 0
        kept = torch.zeros_like(total, dtype=torch.bool)
        kept.scatter_(1, first.topk(CANDIDATES).indices, True)
        total = total.masked_fill(~kept, -torch.inf)
    return (total / (1 + len(tables)) / temperature).softmax(1)


def at_home(q: Tensor, given: Tensor) -> Tensor:
    """q times the root of the class shares at this site: what is rarely given is rarely true."""
    joint = q * shares_of(given, q.shape[1]).pow(HALF)
    return joint / joint.sum(1, keepdim=True)


def shares_of(given: Tensor, classes: int) -> Tensor:
    """How often the site gives each class, sum 1.

    Drawn to even shares as far as chance alone can explain them (James and Stein).
    """
    shares = given.bincount(minlength=classes).double() / len(given)
    spread = (shares - 1 / classes).square().sum()
    by_chance = ((1 - 1 / classes) / len(given) / spread.clamp(min=LEAST)).clamp(max=1)
    drawn = by_chance / classes + (1 - by_chance) * shares
    drawn = drawn.clamp(min=RAREST * float(drawn.max()))
    return drawn / drawn.sum()


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
    if wrong is None:
        wrong = (1 - posterior.gather(1, own)[:, 0]).clamp(0, 1)
    others = posterior.scatter(1, own, -1.0)
    best = others.argmax(1) if posterior.shape[1] > 1 else given
    margin = blend.gather(1, best[:, None]) - blend.gather(1, own)
    confidence = others.gather(1, best[:, None])[:, 0].clamp(min=0).minimum(wrong.float())
    return Scores(wrong.float(), best, confidence, posterior, margin[:, 0])


def cleanlab_scores(given: Tensor, p: Tensor, *, quality: Quality = "self_confidence") -> Scores:
    """Label quality as cleanlab computes it; `wrong` is one minus it, and not calibrated.

    `p` is n x classes, best from a model that was not trained on these samples.
    """
    try:
        from cleanlab import rank
    except ImportError:
        raise ConfigError(
            "The scorer cleanlab needs the package cleanlab; it is not installed. "
            'Install it with `pip install "flr[audit]"`, or leave --scorer out for flr\'s own.'
        ) from None
    rows = p.double() / p.double().sum(1, keepdim=True)
    found = rank.get_label_quality_scores(given.numpy(), rows.numpy(), method=quality)
    wrong = (1 - torch.from_numpy(found)).clamp(0, 1)
    return from_posterior(given, rows.float(), rows.float(), wrong=wrong.float())
