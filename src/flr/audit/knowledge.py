"""What an audit does not know, and knows that it does not."""

from __future__ import annotations

import math

import torch

from flr.audit import noise_model
from flr.audit.evidence import Evidence
from flr.audit.noise_model import Fitted
from flr.audit.scores import outside

FEWEST = 50  # labels: of fewer, an interval for the rate would be nearly all of 0 to 1
# Share of what there is to know of the labels (their entropy) that the opinions must foretell.
LEAST_FORETOLD = 0.05
_ERRORS = 3.0  # standard errors by which that must be more than nothing
# Confusions of a site can be learnt where samples are known whose class is certain (anchor points,
# Liu and Tao, PAMI 2016): this share of samples, of which the opinions are so sure. CIFAR-100's
# sites (seed 0, 20 classes, 600 images) have 0.17 and more.
ANCHOR, ANCHORS = 0.9, 0.1
# A model on its own that repeats nearly every label has learnt them, or is right: both look alike.
NEARLY_ALL = 0.99


def doubt(evidence: Evidence, found: Fitted | None) -> str | None:
    """Why the share of wrong labels cannot be said; None if it can."""
    if len(evidence.classes) == 1:
        return None
    if found is None:
        return (
            "every opinion comes from models that were trained on these labels and may repeat "
            "them. Give features, or predictions by models that had not seen the labels"
        )
    if len(evidence) < FEWEST:
        return f"of fewer than {FEWEST} labels no share can be told. Look at all of them"
    if foretold(evidence, found) < LEAST_FORETOLD:
        return (
            "the opinions foretell the labels hardly better than chance. Features that say more "
            "of what is to be told apart would help"
        )
    if float((found.opinion.max(1).values > ANCHOR).double().mean()) < ANCHORS:
        return (
            "the opinions are sure of hardly any sample, so that wrong labels and classes that "
            "are alike cannot be told apart. Features that say more would help"
        )
    alone = outside(evidence) == ("model",)
    if alone and _agrees(evidence) >= NEARLY_ALL:
        return (
            f"the model repeats at least {100 * NEARLY_ALL:.0f} % of them, as one does that has "
            "memorized them. Give features, so that it can be checked"
        )
    return None


def foretold(evidence: Evidence, found: Fitted) -> float:
    """Share of the labels' entropy that the opinions explain, less what chance could explain."""
    given, classes = evidence.given, len(evidence.classes)
    shares = noise_model.log_shares(given, classes)[given]
    said = torch.einsum("nz,zn->n", found.opinion, found.transition[:, given])
    gain = said.clamp(min=1e-12).log() - shares
    sure = float(gain.mean()) - _ERRORS * float(gain.std()) / math.sqrt(len(given))
    return sure / max(-float(shares.mean()), 1e-9)


def _agrees(evidence: Evidence) -> float:
    return float((evidence.views["model"].argmax(1) == evidence.given).double().mean())
