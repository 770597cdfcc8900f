"""One site's labels, ready to be audited, and the folder in which its people find the result."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from flr.audit.evidence import Evidence
from flr.audit.findings import Audit, audit, write
from flr.audit.labels_file import as_csv, write_labels
from flr.audit.page import write_page
from flr.audit.pictures import Texts, Thumbnails
from flr.audit.scores import Scores
from flr.core.arrays import write_atomically

PAGE, LABELS, UNCHECKED, SHARE = "audit.html", "labels.csv", "unchecked.csv", "share.json"


@dataclass(frozen=True, eq=False)
class SiteAudit:
    """Evidence, what its samples look like, and what could not be looked at.

    `labels` are names and labels of all samples where they came with the data: `flr relabel` needs
    them in a file.
    """

    evidence: Evidence
    pictures: Thumbnails
    features: Texts
    labels: tuple[Sequence[str], Sequence[str]] | None = None
    notes: tuple[str, ...] = ()  # sentences on what was not checked
    left_out: tuple[tuple[str, str], ...] = ()  # samples with the reason
    kind: Literal["image", "text", "table"] = "image"
    sources: Callable[[int], Path | None] = lambda _: None  # an audited row's original file
    other_issues: tuple[tuple[str, tuple[str, ...], str], ...] = ()  # kind, names, sentence


def examine(
    site: SiteAudit, folder: Path, scorer: str = "flr", scores: Scores | None = None
) -> Audit:
    """Audits, and writes suspects.csv, audit.json and audit.html, and labels.csv where needed."""
    if site.labels is not None:
        write_labels(folder / LABELS, *site.labels)
    found = audit(site.evidence, scorer=scorer, scores=scores)
    found = replace(found, unchecked=(*site.notes, *found.unchecked))
    write(found, folder)
    write_page(found, site, folder / PAGE)
    if site.left_out or (folder / UNCHECKED).exists():  # a list of an earlier audit is out of date
        write_atomically(folder / UNCHECKED, as_csv(("name", "reason"), site.left_out))
    (folder / SHARE).unlink(missing_ok=True)  # so is its rate
    return found


def share(found: Audit, folder: Path) -> str:
    """Writes what a site may tell others: its estimated share of wrong labels, nothing else."""
    rate = found.rate
    values = {"wrong_labels": rate.estimate, "low": rate.low, "high": rate.high}
    text = json.dumps({key: round(value, 4) for key, value in values.items()}, indent=2) + "\n"
    write_atomically(folder / SHARE, text)
    return text
