"""How probable it is that each label is wrong, and what it should be instead."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from flr.audit import noise_model
from flr.audit.evidence import OUTSIDE, VIEWS, Evidence
from flr.audit.noise_model import Fitted
from flr.audit.second_reading import log_odds_of_wrong, reread
from flr.core.errors import ConfigError

FLAGGED = 0.5  # more probably wrong than right
# Of a class with fewer labels, five folds leave some heads without an example: what they say of its
# labels is no opinion. Such labels are as wrong as the site's are.
FEWEST = 5
# People mistake samples that are like another class. A label among the likely ones then says
# nothing of the truth, and no likelihood tells it from a right label of an unlike sample: the share
# rho of such labels is not identified (docs/explanation/label-audit.md). This is its mean:
# CIFAR-100's human labels (20 classes, seeds 0 and 1) have 0.4 and 0.3, drawn swaps and
# instance-dependent noise of ten classes 0.1 to 0.2. Where the likelihood says that mistakes are
# even, there is no resemblance.
RESEMBLING = 0.3
_LEAST = 1e-6  # of a probability, before a logarithm
_PRIOR_STEPS = 20  # of EM for the site's class shares

Quality = Literal["self_confidence", "normalized_margin", "confidence_weighted_entropy"]


@dataclass(frozen=True, eq=False)
class Scores:
    """One row for each sample; `posterior` is what its true class may be, n x classes."""

    wrong: Tensor  # n: probability that the given label is wrong
    suggested: Tensor  # n, int64: the most probable other class
    confidence: Tensor  # n: probability of the suggested class
    posterior: Tensor
    margin: Tensor  # n: how much more the views give to the suggested class than to the given one
    issue: Tensor  # n, bool: more probably wrong than right


def score(evidence: Evidence) -> Scores:
    """The audit's own scores: opinions from outside the labels, then what trained models add.

    The opinions that were formed without a sample's label are joined by `noise_model.fit`. Models
    that were trained on the labels are read after them, as `second_reading` has it: the
    federation's tables and model first, as the local one has seen these labels longest.
    """
    given, seen = evidence.given, blend(evidence)
    if len(evidence.classes) == 1:
        return from_posterior(given, torch.ones_like(seen), seen)
    found = fitted(evidence)
    odds, posterior = _first_reading(evidence, found)
    others = posterior.scatter(1, given[:, None], 0.0).clamp(min=_LEAST).log()
    for name in readers(evidence):
        view = at_home(evidence.views[name].double()) if name != "local" else evidence.views[name]
        known = evidence.known(name)
        odds = reread(odds, log_odds_of_wrong(view, given), known)
        others = others + torch.where(known[:, None], view.double().clamp(min=_LEAST).log(), 0.0)
    wrong = torch.sigmoid(odds)
    return from_posterior(given, _with_wrong(others.softmax(1), given, wrong), seen, wrong=wrong)


def outside(evidence: Evidence) -> tuple[str, ...]:
    """The views that were formed without a sample's own label.

    A model that is said not to be trained on these labels is one where there is no other: beside
    opinions of the site's own, it has to show that.
    """
    own = tuple(name for name in OUTSIDE if name in evidence.views)
    return own or (("model",) if "model" in evidence.views and not evidence.trained else ())


def readers(evidence: Evidence) -> tuple[str, ...]:
    """The views that may have been formed with the labels, those of many sites first."""
    asked = ("global", "model", "local")
    return tuple(v for v in asked if v in evidence.views and v not in outside(evidence))


def fitted(evidence: Evidence) -> Fitted | None:
    """The noise model of the opinions from outside the labels; None without such an opinion."""
    views = [evidence.views[name] for name in outside(evidence)]
    return noise_model.fit(_logs(torch.stack(views)), evidence.given) if views else None


def _first_reading(evidence: Evidence, found: Fitted | None) -> tuple[Tensor, Tensor]:
    """Log odds of wrong, and what the true class may be, before trained models are read."""
    given, classes = evidence.given, len(evidence.classes)
    if found is None:
        shares = noise_model.log_shares(given, classes).softmax(0)
        unknown = torch.full((len(given),), noise_model.UNKNOWN, dtype=torch.float64)
        return torch.logit(unknown), shares.expand(len(given), classes)
    wrong = found.wrong(given) + resemblance(found) * doubted(found, given)
    few = given.bincount(minlength=classes)[given] < FEWEST
    wrong = torch.where(few, wrong[~few].mean() if (~few).any() else noise_model.UNKNOWN, wrong)
    return torch.logit(wrong, eps=_LEAST), found.posterior


def resemblance(found: Fitted) -> float:
    """The share of labels that are expected to be given by what a sample resembles."""
    return RESEMBLING * (1 - found.evenly)


def doubted(found: Fitted, given: Tensor) -> Tensor:
    """How much more probably wrong a label is that was given by resemblance, n.

    Such a label says nothing of the true class that the opinion does not say itself.
    """
    return (1 - found.opinion.gather(1, given[:, None])[:, 0]) - found.wrong(given)


def at_home(view: Tensor) -> Tensor:
    """A view of many sites, for samples of this one: what is rare here is rarely true.

    The class shares of the site are those under which its samples are likeliest (Saerens et al.,
    Neural Computation 2002); no label takes part.
    """
    classes = view.shape[1]
    shares = torch.full((classes,), 1 / classes, dtype=torch.float64)
    for _ in range(_PRIOR_STEPS):
        joint = view.clamp(min=_LEAST) * shares
        found = joint / joint.sum(1, keepdim=True)
        shares = (found.nan_to_num().sum(0) + 1) / (len(view) + classes)
    return found


def blend(evidence: Evidence) -> Tensor:
    """Mean of the views that know a sample, n x classes."""
    total = torch.zeros(len(evidence), len(evidence.classes), dtype=torch.float64)
    for name in VIEWS:
        if name in evidence.views:  # where(): rows without meaning may hold anything, even NaN
            known = evidence.known(name)[:, None]
            total += torch.where(known, evidence.views[name].double(), 0.0)
    none = total.sum(1, keepdim=True) == 0
    total = torch.where(none, 1 / total.shape[1], total)
    return total / total.sum(1, keepdim=True)


def _logs(views: Tensor) -> Tensor:
    return views.double().clamp(min=_LEAST).log()


def _with_wrong(q: Tensor, given: Tensor, wrong: Tensor) -> Tensor:
    """Rows with 1 - wrong for the given class, and the others in the proportions of q."""
    own = given[:, None]
    rest = q.scatter(1, own, 0.0)
    rest = rest * (wrong[:, None] / rest.sum(1, keepdim=True).clamp(min=_LEAST**2))
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
    wrong = wrong.float()
    return Scores(wrong, best, confidence, posterior, margin[:, 0], wrong >= FLAGGED)


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
