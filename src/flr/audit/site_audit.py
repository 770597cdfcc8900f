"""One site's labels, ready to be audited, and the folder in which its people find the result."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from flr.audit.evidence import Evidence
from flr.audit.findings import Audit, audit, scores_of, write
from flr.audit.labels_file import LabelTable, as_csv, write_labels, write_privately
from flr.audit.other_issues import Issue
from flr.audit.page import write_page
from flr.audit.pictures import Texts, Thumbnails
from flr.audit.scores import Scores
from flr.core.errors import DataError

PAGE, LABELS, UNCHECKED, SHARE = "audit.html", "labels.csv", "unchecked.csv", "share.json"
SCORES, ISSUES = "scores.csv", "other_issues.csv"
FILES = (PAGE, LABELS, UNCHECKED, SHARE, SCORES, ISSUES, "suspects.csv", "audit.json")
SCORE_COLUMNS = ("name", "given_label", "predicted_label", "label_score", "is_label_issue")

_OWN_FOLDER, _OWN_FILE = 0o700, 0o600  # names, labels and pictures of samples are for their owner


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
    other_issues: tuple[Issue, ...] = ()
    table: LabelTable | None = None  # the labels' own file


def refuse_folder(out: Path, overwrite: bool = False, data: Path | None = None) -> None:
    """Refuses a folder that holds something; an earlier audit only if nobody said to replace it.

    An audit is never in the folder of the data, where the next one would find it among them.
    """
    if data is not None and data.is_dir() and out.resolve().is_relative_to(data.resolve()):
        raise DataError(
            f"Expected a folder for the audit outside of the data; {out} is in {data}. Choose "
            "another --out."
        )
    held = sorted(path.name for path in out.iterdir()) if out.is_dir() else []
    audited = bool(held) and any(path for kind in (PAGE, f"*/{PAGE}") for path in out.glob(kind))
    if held and not (overwrite and audited):
        advice = ", or say --overwrite to replace the audit in it" if audited else ""
        raise DataError(
            f"Expected a new or empty folder for the audit; {out} holds {', '.join(held[:3])}. "
            f"Choose another --out{advice}."
        )


def clear(folder: Path) -> None:
    """Takes away what an earlier audit has written; what others have put there stays."""
    for name in FILES:
        (folder / name).unlink(missing_ok=True)


def examine(
    site: SiteAudit, folder: Path, scorer: str = "flr", scores: Scores | None = None
) -> Audit:
    """Audits, and writes all that people need into the folder; only its owner can read it."""
    folder.mkdir(parents=True, exist_ok=True, mode=_OWN_FOLDER)
    if site.labels is not None:
        write_labels(folder / LABELS, *site.labels)
    scores = scores_of(site.evidence, scorer) if scores is None else scores
    found = audit(site.evidence, scorer=scorer, scores=scores)
    found = replace(found, unchecked=(*site.notes, *found.unchecked))
    write(found, folder)
    write_page(found, site, folder / PAGE)
    write_privately(folder / SCORES, as_csv(SCORE_COLUMNS, _score_rows(site.evidence, scores)))
    _write_or_remove(folder / ISSUES, ("issue", "name", "group", "what"), _issue_rows(site))
    _write_or_remove(folder / UNCHECKED, ("name", "reason"), site.left_out)
    (folder / SHARE).unlink(missing_ok=True)  # that of an earlier audit is out of date
    for name in FILES:
        if (folder / name).exists():
            (folder / name).chmod(_OWN_FILE)
    return found


def _write_or_remove(path: Path, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """No file if there is nothing to list; what an earlier audit has listed is out of date."""
    if rows:
        write_privately(path, as_csv(header, rows))
    else:
        path.unlink(missing_ok=True)


def _score_rows(evidence: Evidence, scores: Scores) -> list[list[str]]:
    """Of every sample, with the columns that users of cleanlab know."""
    issue = scores.issue.tolist()
    wrong, likeliest = scores.wrong.tolist(), scores.posterior.argmax(1).tolist()
    given, names = evidence.given.tolist(), evidence.classes
    return [
        [name, names[given[i]], names[likeliest[i]], f"{1 - wrong[i]:.4f}", str(issue[i])]
        for i, name in enumerate(evidence.names)
    ]


def likely_wrong(scores: Scores) -> int:
    """How many labels are more probably wrong than right."""
    return int(scores.issue.sum())


def _issue_rows(site: SiteAudit) -> list[list[str]]:
    """One row for each sample; those of one group belong together."""
    return [
        [kind, name, str(group), what]
        for group, (kind, names, what) in enumerate(site.other_issues, 1)
        for name in names or ("",)
    ]


def share(found: Audit, folder: Path) -> str:
    """Writes what a site may tell others: its estimated share of wrong labels, nothing else."""
    rate = found.rate
    values = {"wrong_labels": rate.estimate, "low": rate.low, "high": rate.high}
    text = json.dumps({key: round(value, 4) for key, value in values.items()}, indent=2) + "\n"
    write_privately(folder / SHARE, text)
    return text
