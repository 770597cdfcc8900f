"""What a site can say of its samples itself, of each without looking at its label."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from flr.audit import noise_model
from flr.audit.evidence import Evidence
from flr.audit.heads import OutOfFold, folds_of, reduced
from flr.audit.neighbours import neighbour_opinion
from flr.core import seeds
from flr.simulation.build import threads

FOLDS = 5
# Precisions of a head's weights, from a head that says little to one that follows single samples:
# the labels say which is best. Features have a mean square length of 1.
PRECISIONS = (10.0, 3.0, 1.0, 0.3, 0.1, 0.03)
ROUNDS = 3  # of confusions learnt from heads, and heads trained through these confusions
REPEATS = 3  # other folds, whose means change less with the deal
# Samples x classes x repeats from which on one deal of the folds must do: 20,000 of 100 classes
# take minutes.
_MUCH = 300_000
_LEAST = 1e-9

Progress = Callable[[str, float], None]


def with_site_opinions(
    evidence: Evidence, on_progress: Progress | None = None, seed: int = 0
) -> Evidence:
    """Adds the views "site" and "neighbours", made from the evidence's features.

    Args:
        evidence: Without `features` it stays as it is, and the audit will say what it lacks.
        on_progress: Called with what is being done, and the share that is done.
        seed: Decides how the folds are dealt out.

    Example:
        >>> evidence = with_site_opinions(evidence)
        >>> audit(evidence).rate
    """
    if evidence.features is None:
        return evidence
    say = on_progress or (lambda _what, _share: None)
    classes = len(evidence.classes)
    large = len(evidence.given) * classes > _MUCH
    # Of small sums each is over before a second thread has begun; on a busy machine, waiting for
    # it takes most of the time.
    with threads(torch.get_num_threads() if large else 1):
        own = site_opinion(evidence.features, evidence.given, classes, say, seed)
        say("comparing neighbours", 0.95)
        believed = noise_model.fit(own.clamp(min=_LEAST).log()[None], evidence.given).posterior
        near = neighbour_opinion(evidence.features, believed, evidence.given)
    say("opinions formed", 1.0)
    return replace(evidence, views={**evidence.views, "site": own, "neighbours": near})


def site_opinion(
    features: Tensor, given: Tensor, classes: int, say: Progress, seed: int = 0
) -> Tensor:
    """Class probabilities by heads that were trained without the sample, n x classes."""
    if len(given) < 2 * FOLDS or classes == 1 or len(given.unique()) == 1:
        return torch.full((len(given), classes), 1 / classes)  # nothing can be learnt
    if classes > len(given):  # of most there is no example, and confusions are classes x classes
        named, among_named = given.unique(return_inverse=True)
        found = torch.zeros(len(given), classes)
        found[:, named] = site_opinion(features, among_named, len(named), say, seed)
        return found
    say("finding what features have in common", 0.0)
    x, repeats = reduced(features), 1 if len(given) * classes > _MUCH else REPEATS
    rngs = [seeds.generator(seed, "audit folds", repeat) for repeat in range(repeats)]
    deals = [folds_of(given, FOLDS, rng) for rng in rngs]
    precision, said = _best_precision(x, given, classes, deals[0], say)
    total = said.exp()
    for number, fold in enumerate(deals[1:], 2):
        total += _through_confusions(x, given, classes, fold, precision)[1].exp()
        say("training classifiers", 0.5 + 0.4 * number / repeats)
    return total / total.sum(1, keepdim=True)


def _best_precision(
    x: Tensor, given: Tensor, classes: int, fold: Tensor, say: Progress
) -> tuple[float, Tensor]:
    """The prior under which heads foretell given labels best, and what they say."""
    best, chosen, kept = -torch.inf, PRECISIONS[0], torch.empty(0)
    for number, precision in enumerate(PRECISIONS):
        say("choosing classifiers", 0.5 * number / len(PRECISIONS))
        fits, said = _through_confusions(x, given, classes, fold, precision)
        if fits < best:
            break
        best, chosen, kept = fits, precision, said
    return chosen, kept


def _through_confusions(
    x: Tensor, given: Tensor, classes: int, fold: Tensor, precision: float
) -> tuple[float, Tensor]:
    """Heads of true classes, from two starts; those by which held-out labels are likelier.

    One start takes the labels as they are given, the other the confusions that anchors show.
    """
    heads = OutOfFold(x, given, classes, fold)
    said = heads.log_probabilities(precision, None).clamp(min=math.log(_LEAST))
    plain = noise_model.fit(said[None], given)
    starts = (
        _alternated(heads, precision, plain.transition, (plain.fits, said)),
        _alternated(heads, precision, at_anchors(plain.opinion, given), (-torch.inf, said)),
    )
    return max(starts, key=lambda found: found[0])


def _alternated(
    heads: OutOfFold, precision: float, transition: Tensor, best: tuple[float, Tensor]
) -> tuple[float, Tensor]:
    """Confusions and heads learn from one another, as long as labels become likelier."""
    for _ in range(ROUNDS):
        said = heads.log_probabilities(precision, transition).clamp(min=math.log(_LEAST))
        found = noise_model.fit(said[None], heads.given)
        if found.fits <= best[0]:
            break
        best, transition = (found.fits, said), found.transition
    return best


def at_anchors(p: Tensor, given: Tensor) -> Tensor:
    """How the samples that look most like each class are labelled, true x given.

    Samples of a class that is mostly given as another one are nowhere most probably called by its
    name; where that is most probable, they still are (Patrini et al., CVPR 2017).

    Args:
        p: Probabilities of given labels, each formed without the sample's own, and calibrated:
            what a timid head gives to all other classes is no confusion. n x classes.
        given: The labels; half as many samples of a class are its anchors as have its label.

    Example:
        >>> at_anchors(noise_model.fit(said[None], given).opinion, given)
    """
    counts = given.bincount(minlength=p.shape[1]).tolist()
    tops = [
        column.topk(max(1, count // 2)).indices for column, count in zip(p.T, counts, strict=True)
    ]
    found = torch.stack([p[top].double().mean(0) for top in tops])
    return found / found.sum(1, keepdim=True)
