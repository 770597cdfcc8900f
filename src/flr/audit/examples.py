"""Other samples to compare a suspect with: the most alike of two classes, and typical ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from flr.audit.evidence import Evidence
from flr.audit.findings import Suspect

NEAREST = 3  # shown of each of the two classes
TYPICAL = 6  # shown of a class
_COMPARED = 5_000  # samples of a class at most: more of them look no more alike
_AT_ONCE = 2_000  # suspects in one product of matrices


@dataclass(frozen=True)
class Examples:
    """Rows of the audit; of a suspect, those of the given and of the suggested class."""

    nearest: Sequence[tuple[tuple[int, ...], tuple[int, ...]]]
    typical: Mapping[int, tuple[int, ...]]  # by class


def find(evidence: Evidence, suspects: Sequence[Suspect]) -> Examples:
    """Examples are labels that nobody doubts, as long as a class has any.

    Without features nothing is known to be alike: then classes show some of their samples.
    """
    at = {name: number for number, name in enumerate(evidence.classes)}
    given = [at[s.given] for s in suspects]
    suggested = [at[s.suggested] for s in suspects]
    members = _members(evidence, suspects, {*given, *suggested})
    if evidence.features is None:
        return Examples([((), ()) for _ in suspects], {c: _spread(m) for c, m in members.items()})
    unit = _unit(evidence.features)
    rows = torch.tensor([s.row for s in suspects], dtype=torch.int64)
    of_given = _nearest(unit, rows, given, members)
    of_suggested = _nearest(unit, rows, suggested, members)
    typical = {label: _typical(unit, rows) for label, rows in members.items()}
    return Examples(list(zip(of_given, of_suggested, strict=True)), typical)


def _members(
    evidence: Evidence, suspects: Sequence[Suspect], classes: set[int]
) -> dict[int, Tensor]:
    """Rows of each class, without suspects where others are left; evenly thinned out."""
    doubted = torch.zeros(len(evidence), dtype=torch.bool)
    doubted[[s.row for s in suspects]] = True
    order = evidence.given.argsort(stable=True)
    ends = evidence.given.bincount(minlength=len(evidence.classes)).cumsum(0).tolist()
    members = {}
    for label in sorted(classes):
        rows = order[ends[label - 1] if label else 0 : ends[label]]
        trusted = rows[~doubted[rows]]
        rows = trusted if len(trusted) else rows
        members[label] = rows[:: max(1, len(rows) // _COMPARED)]
    return members


def _unit(features: Tensor) -> Tensor:
    """Of mean 0 and spread 1 in each column, since units of a table differ; then of length 1."""
    values = features.float()
    spread, mean = torch.std_mean(values, dim=0, correction=0)
    scaled = (values - mean) / torch.where(spread > 0, spread, torch.ones_like(spread))
    return torch.nn.functional.normalize(scaled, dim=1)


def _nearest(
    unit: Tensor, rows: Tensor, classes: Sequence[int], members: Mapping[int, Tensor]
) -> list[tuple[int, ...]]:
    """For each row, the most alike of its class, never itself."""
    found: list[tuple[int, ...]] = [()] * len(rows)
    wanted = torch.tensor(classes, dtype=torch.int64)
    for label, others in members.items():
        for places in (wanted == label).nonzero()[:, 0].split(_AT_ONCE):
            alike = unit[rows[places]] @ unit[others].T
            alike[rows[places][:, None] == others] = -torch.inf
            best = alike.topk(min(NEAREST, len(others)), dim=1)
            picks, known = others[best.indices].tolist(), best.values.isfinite().sum(1).tolist()
            for place, row, count in zip(places.tolist(), picks, known, strict=True):
                found[place] = tuple(row[:count])  # itself is never finite, and so the last one
    return found


def _typical(unit: Tensor, rows: Tensor) -> tuple[int, ...]:
    """Those closest to the middle of their class."""
    middle = unit[rows].mean(0)
    best = (unit[rows] @ middle).topk(min(TYPICAL, len(rows))).indices
    return tuple(rows[best].tolist())


def _spread(rows: Tensor) -> tuple[int, ...]:
    return tuple(rows[:: max(1, len(rows) // TYPICAL)][:TYPICAL].tolist())
