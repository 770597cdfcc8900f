"""What else a person should look at: twins, outliers, odd files, rare and misspelt classes.

Found by features alone, so that no label is needed to be right.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import cast

import numpy as np
from torch import Tensor

from flr.audit.evidence import Evidence
from flr.audit.labels_file import shown, some
from flr.data.checks import Array

Issue = tuple[str, tuple[str, ...], str]  # kind, names of the samples, a sentence

CONFLICT, TWINS, OUTLIER, ODD = "conflict", "near_duplicate", "outlier", "odd_file"
RARE, SPELLING = "rare_class", "similar_labels"

_NEAREST = 10
_TWIN = 0.13  # of the usual distance to the nearest other sample, as in cleanlab's Datalab
_FEWEST = 20  # samples from which on "usual" means something
_RARE = 0.1  # of an even share, as in Datalab
_FAR_OUT = 3.0  # Tukey's outer fence, in quartile distances of the logarithm


def other_issues(evidence: Evidence, odd: Sequence[tuple[int, str]]) -> tuple[Issue, ...]:
    """All that is known, what most needs a decision first; `odd` names samples by their place."""
    found: list[Issue] = [(ODD, (evidence.names[row],), f"{what}.") for row, what in odd]
    found += _classes(evidence)
    if evidence.features is not None and len(evidence) >= _FEWEST:
        distances, places = _neighbors(evidence.features)
        found += [*_twins(evidence, distances, places), *_outliers(evidence, distances)]
    order = (CONFLICT, ODD, SPELLING, TWINS, OUTLIER, RARE)
    return tuple(sorted(found, key=lambda issue: order.index(issue[0])))


def _neighbors(features: Tensor) -> tuple[Array, Array]:
    """Distances of directions (cosine) to the nearest other samples, and which these are."""
    from sklearn.neighbors import NearestNeighbors

    x = features.double().numpy()
    x = x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)
    near = NearestNeighbors(n_neighbors=min(_NEAREST, len(x) - 1)).fit(x.astype(np.float32))
    return cast(tuple[Array, Array], near.kneighbors())


def _twins(evidence: Evidence, distances: Array, places: Array) -> list[Issue]:
    """Groups of samples that are far nearer to each other than samples usually are."""
    usual = float(np.median(distances[:, 0]))
    group = list(range(len(evidence)))

    def first(row: int) -> int:
        while group[row] != row:
            group[row] = group[group[row]]
            row = group[row]
        return row

    for row, at in zip(*np.nonzero(distances < _TWIN * usual), strict=True):
        group[first(int(row))] = first(int(places[row, at]))
    groups = defaultdict[int, list[int]](list)
    for row in range(len(evidence)):
        groups[first(row)].append(row)
    return [_group(evidence, rows) for rows in groups.values() if len(rows) > 1]


def _group(evidence: Evidence, rows: list[int]) -> Issue:
    names = tuple(evidence.names[row] for row in rows)
    labels = sorted({evidence.classes[label] for label in evidence.given[rows].tolist()})
    if len(labels) > 1:
        return CONFLICT, names, f"Nearly the same, with different labels: {some(labels)}."
    return TWINS, names, f"Nearly the same, all labelled {shown(labels[0])}."


def _outliers(evidence: Evidence, distances: Array) -> list[Issue]:
    away = np.log(np.maximum(distances.mean(1), 1e-9))
    low, high = np.percentile(away, (25, 75))
    rows = np.nonzero(away > high + _FAR_OUT * max(high - low, 1e-3))[0].tolist()
    return [(OUTLIER, (evidence.names[row],), "Unlike all other samples.") for row in rows]


def _classes(evidence: Evidence) -> list[Issue]:
    counts = evidence.given.bincount(minlength=len(evidence.classes)).tolist()
    even, found = len(evidence) / len(evidence.classes), list[Issue]()
    alike = defaultdict[str, list[str]](list)
    for label, (name, count) in enumerate(zip(evidence.classes, counts, strict=True)):
        alike["".join(name.casefold().split())].append(name)
        if count < _RARE * even:
            rows = (evidence.given == label).nonzero()[:, 0].tolist()
            sentence = f"Class {shown(name)} has {count:,} of {len(evidence):,} samples."
            found.append((RARE, tuple(evidence.names[row] for row in rows), sentence))
    for names in alike.values():
        if len(names) > 1:
            found.append((SPELLING, (), f"Classes that differ in spelling only: {some(names)}."))
    return found
