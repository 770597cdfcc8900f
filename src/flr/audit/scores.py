"""How probable it is that each label is wrong, and what it should be instead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from flr.audit import noise_model
from flr.audit.evidence import Evidence

VIEWS = ("global", "local", "model")
FEDERATION = ("global", "model")  # opinions of many sites
TEMPERATURE = 2.0  # FLR sharpens predictions on purpose; chosen on simulated sites of one seed
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
    """The audit's own scores: blended views, corrected for the site's way of being wrong.

    The order comes from all views. How many labels are wrong comes from those of the federation
    only: the local view has been trained longest on these very labels, and repeats more of them.
    """
    given, q = evidence.given, blend(evidence)
    fitted = noise_model.fit(common(evidence), given)
    if constant_opinion(evidence) is None:
        rate = float(noise_model.fit(blend(evidence, FEDERATION), given).wrong(given).mean())
    else:
        rate = noise_model.UNKNOWN
    return with_rate(from_posterior(given, fitted.posterior, q), given, rate)


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


def common(evidence: Evidence) -> Tensor:
    """What the views have in common, less sure of itself: their geometric mean^(1/temperature)."""
    model = evidence.views["model"].double().clamp(min=LEAST).log()
    total, known = model.clone(), evidence.tables[:, None]
    tables = [view for name, view in evidence.views.items() if name != "model"]
    for view in tables:
        total += torch.where(known, view.double().clamp(min=LEAST).log(), model)
    return (total / (1 + len(tables)) / TEMPERATURE).softmax(1)


def with_rate(scores: Scores, given: Tensor, rate: float) -> Scores:
    """The same order, with the odds shifted so that the mean of `wrong` is `rate`."""
    wrong = noise_model.matched(scores.wrong, rate)
    own, right = given[:, None], (1 - wrong)[:, None]
    rest = scores.posterior.double().scatter(1, own, 0.0)
    rest = rest * (wrong[:, None] / rest.sum(1, keepdim=True).clamp(min=LEAST**2))
    posterior = rest.scatter(1, own, right).float()
    return replace(
        scores,
        wrong=wrong.float(),
        posterior=posterior,
        confidence=posterior.gather(1, scores.suggested[:, None])[:, 0].minimum(wrong.float()),
    )


def from_posterior(
    given: Tensor, posterior: Tensor, blend: Tensor, *, wrong: Tensor | None = None
) -> Scores:
    """Reads suggestion and confidence off the probabilities of the true class.

    `wrong` is 1 - posterior(given) where it is left out. With one class there is nothing to
    suggest: the suggestion is the given label, with confidence 0.
    """
    own = given[:, None]
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
