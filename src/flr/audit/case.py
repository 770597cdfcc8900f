"""One site's labels, ready to be audited, and the folder in which its people find the result."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from flr.arrays import write_atomically
from flr.audit.evidence import Evidence
from flr.audit.findings import Audit, audit, write
from flr.audit.labels_file import as_csv, write_labels
from flr.audit.page import write_page
from flr.audit.pictures import Texts, Thumbnails
from flr.audit.scores import Scores

PAGE, LABELS, UNCHECKED, SHARE = "audit.html", "labels.csv", "unchecked.csv", "share.json"


@dataclass(frozen=True)
class Labels:
    """All labels that came with the data, as text; `flr relabel` needs them in a file."""

    names: Sequence[str]
    labels: Sequence[str]


@dataclass(frozen=True, eq=False)
class Case:
    """Evidence, what its samples look like, and what could not be looked at."""

    evidence: Evidence
    pictures: Thumbnails
    features: Texts
    labels: Labels | None = None  # None: they are in a file already
    notes: tuple[str, ...] = ()  # sentences on what was not checked
    left_out: tuple[tuple[str, str], ...] = ()  # samples with the reason


def examine(case: Case, folder: Path, scorer: str = "flr", scores: Scores | None = None) -> Audit:
    """Audits, and writes suspects.csv, audit.json and audit.html, and labels.csv where needed."""
    if case.labels is not None:
        write_labels(folder / LABELS, case.labels.names, case.labels.labels)
    found = audit(case.evidence, scorer=scorer, scores=scores)
    found = replace(found, unchecked=(*case.notes, *found.unchecked))
    write(found, folder)
    write_page(found, case.pictures, case.features, folder / PAGE)
    if case.left_out or (folder / UNCHECKED).exists():  # a list of an earlier audit is out of date
        write_atomically(folder / UNCHECKED, as_csv(("name", "reason"), case.left_out))
    (folder / SHARE).unlink(missing_ok=True)  # so is its rate
    return found


def share(found: Audit, folder: Path) -> str:
    """Writes what a site may tell others: its estimated share of wrong labels, nothing else."""
    rate = found.rate
    values = {"wrong_labels": rate.estimate, "low": rate.low, "high": rate.high}
    text = json.dumps({key: round(value, 4) for key, value in values.items()}, indent=2) + "\n"
    write_atomically(folder / SHARE, text)
    return text
