"""What the audit found, as plain values that the page, the files and the truth report use."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from flr.audit import explanations
from flr.audit.evidence import Evidence
from flr.audit.knowledge import doubt
from flr.audit.labels_file import as_csv
from flr.audit.scores import Scores, blend, cleanlab_scores, fitted, score
from flr.audit.uncertainty import Bootstrap, PairCounts, bootstrap, pair_counts
from flr.core.arrays import canonical_json, write_atomically
from flr.core.errors import ConfigError
from flr.core.registry import unknown
from flr.simulation.build import threads

SCORERS = ("flr", "cleanlab")
FEWEST, MOST = 50, 5_000  # suspects listed
MOST_PAIRS, LEAST_EXPECTED = 200, 0.5  # pairs listed, and labels that make a pair worth it
INTERVAL = (0.05, 0.95)
COLUMNS = ("rank", "name", "given", "suggested", "probability", "confidence", "agree", "reason")


@dataclass(frozen=True)
class Rate:
    """A share with its 90 % interval."""

    estimate: float
    low: float
    high: float


@dataclass(frozen=True)
class ClassPair:
    """Labels `given` that are really `likely`: expected number, and share of that given class."""

    given: str
    likely: str
    count: float
    rate: Rate


@dataclass(frozen=True)
class ClassRate:
    """The labels of one given class, and the share of them that is wrong."""

    name: str
    labels: int
    wrong: Rate


@dataclass(frozen=True)
class Suspect:
    """One label for a person to look at."""

    row: int
    name: str
    given: str
    suggested: str
    probability: float  # that the given label is wrong
    confidence: float  # of the suggestion
    margin: float  # blended p(suggested) - p(given)
    agree: bool | None  # all views name the same class; None with one view
    reason: str


@dataclass(frozen=True)
class Audit:
    """The findings at one site; `suspects` has the most probable first."""

    site: str
    samples: int
    classes: tuple[str, ...]
    verdict: str
    rate: Rate
    per_class: tuple[ClassRate, ...]
    pairs: tuple[ClassPair, ...]
    suspects: tuple[Suspect, ...]
    budget: tuple[tuple[int, float], ...]  # (labels reviewed in this order, wrong ones expected)
    unchecked: tuple[str, ...]
    source: str
    scorer: str
    key: str
    sure: bool = True  # False: the audit knows that it does not know; the verdict says why


def scores_of(evidence: Evidence, scorer: str = "flr") -> Scores:
    """Every sample's scores, with "flr" or with "cleanlab" on the same probabilities."""
    if scorer not in SCORERS:
        raise ConfigError(unknown("scorer", scorer, list(SCORERS)))
    with threads(1):  # many small sums: more threads are slower, and give other last bits
        if scorer == "flr":
            return score(evidence)
        return cleanlab_scores(evidence.given, blend(evidence))


def audit(evidence: Evidence, *, scorer: str = "flr", scores: Scores | None = None) -> Audit:
    """Looks at every label of a site.

    Args:
        evidence: The site's labels, and what models have said of its samples.
        scorer: "flr", or "cleanlab" where that is installed.
        scores: Those of `scores_of`, if they are known already.

    Example:
        >>> found = audit(evidence)
        >>> [suspect.name for suspect in found.suspects[:10]]
    """
    found = scores_of(evidence, scorer) if scores is None else scores
    with threads(1):
        outside = fitted(evidence) if len(evidence.classes) > 1 else None
        unknown = doubt(evidence, outside)
        draws = bootstrap(evidence, found, outside, sure=unknown is None)
        drawn = (draws.true != draws.given).double().mean(1)
        rate = _rate(float(found.wrong.double().mean()), drawn)
        expected = pair_counts(evidence.given, found.posterior)
        suspects = _suspects(evidence, found, expected)
        likely = int(found.issue.sum())
        return Audit(
            site=evidence.site,
            samples=len(evidence),
            classes=evidence.classes,
            verdict=explanations.verdict(evidence, rate.estimate, rate.low, rate.high, unknown),
            rate=rate,
            per_class=_per_class(evidence, found, draws),
            pairs=_pairs(evidence.classes, expected, draws),
            suspects=suspects,
            budget=_budget(found.wrong),
            unchecked=explanations.unchecked(evidence, max(likely - len(suspects), 0)),
            source=evidence.source,
            scorer=scorer,
            key=_key(evidence, rate, suspects),
            sure=unknown is None,
        )


def write(audit: Audit, folder: Path) -> None:
    """Writes suspects.csv and audit.json."""
    agree = {None: "", True: "yes", False: "no"}
    rows = [
        (
            *(str(rank), s.name, s.given, s.suggested),
            *(f"{s.probability:.4f}", f"{s.confidence:.4f}", agree[s.agree], s.reason),
        )
        for rank, s in enumerate(audit.suspects, 1)
    ]
    write_atomically(folder / "suspects.csv", as_csv(COLUMNS, rows))
    write_atomically(folder / "audit.json", json.dumps(asdict(audit), indent=1) + "\n")


def _rate(estimate: float, drawn: Tensor) -> Rate:
    low, high = drawn.quantile(torch.tensor(INTERVAL, dtype=torch.float64)).tolist()
    return Rate(estimate, min(low, estimate), max(high, estimate))


def _per_class(evidence: Evidence, found: Scores, draws: Bootstrap) -> tuple[ClassRate, ...]:
    count = evidence.given.bincount()
    expected = (evidence.given.bincount(found.wrong.double()) / count).tolist()
    rates = []
    for label, true in draws.by_label.items():
        rate = _rate(expected[label], (true != label).double().mean(1))
        rates.append(ClassRate(evidence.classes[label], int(count[label]), rate))
    return tuple(rates)


def _pairs(classes: Sequence[str], expected: PairCounts, draws: Bootstrap) -> tuple[ClassPair, ...]:
    most = sorted(expected.items(), key=lambda item: (-item[1], item[0]))[:MOST_PAIRS]
    pairs = []
    for (given, likely), count in most:
        if count >= LEAST_EXPECTED:
            true = draws.by_label[given]
            rate = _rate(count / true.shape[1], (true == likely).double().mean(1))
            pairs.append(ClassPair(classes[given], classes[likely], count, rate))
    return tuple(pairs)


def _budget(wrong: Tensor) -> tuple[tuple[int, float], ...]:
    """Steps that a person would name: 1, 2, 5, 10, 20, 50, ... and fiftieths of all."""
    n = len(wrong)
    steps = {n * part // 50 for part in range(1, 51)}
    steps |= {digit * 10**power for digit in (1, 2, 5) for power in range(len(str(n)))}
    expected = wrong.double().sort(descending=True).values.cumsum(0)
    return tuple((k, float(expected[k - 1])) for k in sorted(steps) if 1 <= k <= n)


def _suspects(evidence: Evidence, found: Scores, expected: PairCounts) -> tuple[Suspect, ...]:
    order = torch.argsort(found.wrong, descending=True, stable=True)
    likely = int(found.issue.sum())
    count = min(MOST, max(likely, min(FEWEST, len(evidence))))
    labels, listed = evidence.given.bincount(), []
    for row in order[:count].tolist():
        given, suggested = int(evidence.given[row]), int(found.suggested[row])
        said = explanations.votes(evidence, row)
        tops = {top for top, _, _ in said.values()}
        share = expected.get((given, suggested), 0.0) / int(labels[given])
        suspect = Suspect(
            row=row,
            name=evidence.names[row],
            given=evidence.classes[given],
            suggested=evidence.classes[suggested],
            probability=float(found.wrong[row]),
            confidence=float(found.confidence[row]),
            margin=float(found.margin[row]),
            agree=len(tops) == 1 if len(said) > 1 else None,
            reason=explanations.reason(evidence, found, row, share),
        )
        listed.append(suspect)
    return tuple(listed)


def _key(evidence: Evidence, rate: Rate, suspects: tuple[Suspect, ...]) -> str:
    found = [asdict(rate), [(s.row, s.suggested, round(s.probability, 6)) for s in suspects]]
    known = [list(evidence.names), list(evidence.classes), evidence.given.tolist(), found]
    return hashlib.sha256(canonical_json(known).encode()).hexdigest()[:16]
