"""Opinions of the site alone: each by a classifier that has not seen the sample's label."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from flr.audit.evidence import Evidence

FOLDS = 5
NEAREST = 10


def with_site_opinions(
    evidence: Evidence, on_progress: Callable[[str, float], None] | None = None
) -> Evidence:
    """Adds the views "site" and "neighbours", from features."""
    if evidence.features is None:
        return evidence
    tell = on_progress or (lambda _what, _share: None)
    tell("Asking classifiers that have not seen the labels", 0.0)
    views = {"site": _folds(evidence), "neighbours": _neighbours(evidence)}
    tell("Asking classifiers that have not seen the labels", 1.0)
    views |= {} if "model" in evidence.views else {"model": views["site"]}
    return replace(evidence, views={**evidence.views, **views})


def _folds(evidence: Evidence) -> Tensor:
    from sklearn.decomposition import PCA
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import KFold

    x, y = evidence.features.numpy(), evidence.given.numpy()  # type: ignore[union-attr]
    x = PCA(min(64, *x.shape), random_state=0).fit_transform(x)
    x /= x[:, 0].std() + 1e-6
    found = torch.full((len(y), len(evidence.classes)), 1e-6)
    for seen, held in KFold(min(FOLDS, len(y)), shuffle=True, random_state=0).split(x):
        model = LogisticRegression(C=1.0, max_iter=100).fit(x[seen], y[seen])
        p = torch.from_numpy(model.predict_proba(x[held])).float()
        found[torch.from_numpy(held)[:, None], torch.from_numpy(model.classes_)] = p + 1e-6
    return found / found.sum(1, keepdim=True)


def _neighbours(evidence: Evidence) -> Tensor:
    from sklearn.neighbors import NearestNeighbors

    x, classes = evidence.features.numpy(), len(evidence.classes)  # type: ignore[union-attr]
    near = min(NEAREST, len(x) - 1)
    places = NearestNeighbors(n_neighbors=near).fit(x).kneighbors(return_distance=False)
    votes = torch.nn.functional.one_hot(evidence.given[torch.from_numpy(places)], classes)
    return (votes.sum(1) + 1 / classes) / (near + 1)
