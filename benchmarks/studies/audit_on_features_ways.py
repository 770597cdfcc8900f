"""Every way to find wrong labels that audit_on_features.py compares, on the same features.

cleanlab has its best chance: out-of-sample predictions of logistic regression, strong and weak, by
five folds, in each of six ways to rank; a row of the page shows the best of these, which only the
truth can tell. The audit has one way.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from benchmarks.studies.audit_arms import issues, rankings
from flr.audit.evidence import Evidence
from flr.audit.findings import Rate, audit, scores_of
from flr.audit.neighbours import nearest
from flr.audit.out_of_sample import with_site_opinions
from flr.core import seeds
from flr.report.audit_truth import Judged, Measured, measure

STRENGTHS = (1.0, 0.01)  # C of scikit-learn: its default, and one that suits a thousand features
FOLDS, NEAREST = 5, 20
EPOCHS, BATCH, HIDDEN, RATE = 20, 64, 256, 0.05  # of the network whose training is watched
_LEAST = 1e-6

Table = dict[str, Tensor]


def evidence_of(features: Tensor, given: Tensor, classes: tuple[str, ...]) -> Evidence:
    """A steward's site: labels and features, no model."""
    names = [str(row) for row in range(len(given))]
    return Evidence("site", names, classes, given, {}, None, "features", features=features)


def known_site(known: Table, classes: tuple[str, ...]) -> Evidence:
    """The same with what was formed before, in place of features."""
    views, given = {name: known[name] for name in ("site", "neighbours")}, known["given"]
    names = [str(row) for row in range(len(given))]
    return Evidence("site", names, classes, given, views, None, "features")


def site_opinions(evidence: Evidence) -> Table:
    """What the audit forms of features and labels."""
    own = with_site_opinions(evidence)
    return {name: own.views[name].float() for name in ("site", "neighbours")}


def opinions(evidence: Evidence, seed: int) -> Table:
    """All that takes time: kept between runs of the study."""
    features, given = evidence.features, evidence.given
    assert features is not None  # noqa: S101  # made by evidence_of
    found = site_opinions(evidence)
    for strength in STRENGTHS:
        found[f"regression {strength}"] = out_of_fold(features, given, strength, seed)
    near = nearest(features, NEAREST)
    found["nearest"] = (given[near] != given[:, None]).float().mean(1)
    found["loss"], found["margin"] = dynamics(features, given, len(evidence.classes), seed)
    return found


def out_of_fold(features: Tensor, given: Tensor, strength: float, seed: int) -> Tensor:
    """What a user of cleanlab computes first: class probabilities by cross-validation."""
    x = StandardScaler().fit_transform(features.numpy())
    y, classes = given.numpy(), int(given.max()) + 1
    found = np.full((len(y), classes), _LEAST)
    for seen, held in StratifiedKFold(FOLDS, shuffle=True, random_state=seed).split(x, y):
        model = LogisticRegression(C=strength, max_iter=300).fit(x[seen], y[seen])
        found[np.ix_(held, model.classes_)] += model.predict_proba(x[held])
    return torch.from_numpy(found / found.sum(1, keepdims=True)).float()


def dynamics(features: Tensor, given: Tensor, classes: int, seed: int) -> tuple[Tensor, Tensor]:
    """Mean loss (small loss) and minus the mean margin (AUM) of each sample over the epochs."""
    rng = seeds.generator(seed, "training dynamics")
    x = (features - features.mean(0)) / features.std(0).clamp(min=_LEAST)
    sizes = [x.shape[1], HIDDEN, classes]
    layers = [torch.randn(a, b, generator=rng) / a**0.5 for a, b in pairwise(sizes)]
    parameters = [layer.requires_grad_() for layer in layers]
    search = torch.optim.SGD(parameters, lr=RATE, momentum=0.9)
    losses, margins = torch.zeros(len(x)), torch.zeros(len(x))
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(x), generator=rng).split(BATCH):
            search.zero_grad()
            logits = (x[rows] @ parameters[0]).relu() @ parameters[1]
            torch.nn.functional.cross_entropy(logits, given[rows]).backward()
            search.step()
        with torch.no_grad():
            logits = (x @ parameters[0]).relu() @ parameters[1]
            own = logits.gather(1, given[:, None])[:, 0]
            losses += torch.nn.functional.cross_entropy(logits, given, reduction="none") / EPOCHS
            others = logits.scatter(1, given[:, None], -torch.inf).max(1).values
            margins += (others - own) / EPOCHS
    return losses, margins


def measured(evidence: Evidence, known: Table, true: Tensor) -> dict[str, Measured]:
    """Each way beside the truth; what has no probabilities has no calibration."""
    scores = scores_of(evidence)
    found = audit(evidence, scores=scores)
    numbers = _judge(scores.wrong, scores.suggested, evidence, true, found.rate)
    numbers |= {"width": found.rate.high - found.rate.low, "sure": float(found.sure)}
    ways = {"audit": numbers}
    for strength in (s for s in STRENGTHS if f"regression {s}" in known):
        p = known[f"regression {strength}"]
        flagged = float(issues(evidence.given, p, "confident_learning").double().mean())
        for way, ranked in rankings(evidence.given, p).items():
            rate = Rate(flagged, flagged, flagged)
            judged = _judge(ranked.wrong, ranked.suggested, evidence, true, rate)
            ways[f"cleanlab, C = {strength:g}, {way}"] = judged | {"interval_covers": None}
    for way in (way for way in ("nearest", "loss", "margin") if way in known):
        order = known[way].argsort().argsort().double() / len(true)  # ranks: no probability
        judged = _judge(order, evidence.given, evidence, true, Rate(0, 0, 0))
        ways[way] = {"average_precision": judged["average_precision"], "auroc": judged["auroc"]}
    return ways


def _judge(
    wrong: Tensor, suggested: Tensor, evidence: Evidence, true: Tensor, rate: Rate
) -> Measured:
    return measure(Judged(wrong, suggested, evidence.given, true, rate))
