"""What the page's scripts read: the findings, and as many samples as a file may hold."""

from __future__ import annotations

import base64
import hashlib
import io
from collections.abc import Iterable
from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PIL import Image

from flr.audit import examples, originals
from flr.audit.findings import Audit, Suspect
from flr.audit.pictures import LARGE, SIDE, Words
from flr.core.arrays import canonical_json
from flr.core.errors import DataError

if TYPE_CHECKING:
    from flr.audit.site_audit import SiteAudit

BUDGET = 48 * 2**20  # bytes of all pictures: a third more as text, which browsers open in seconds
LONGEST, SHORT = 10_000, 500  # characters of a text that are shown, while there is room and after
PICTURED = 200  # other issues whose samples are shown, and not only named
_SIGNATURES = {b"\x89PNG\r\n": "image/png", b"\xff\xd8\xff": "image/jpeg"}
_LOOKED_AT = 16  # samples that tell one data set from another


def content(audit: Audit, site: SiteAudit, folder: Path) -> dict[str, Any]:
    """Classes by position, since a name may be long; samples by row, since many are there twice."""
    at = {name: i for i, name in enumerate(audit.classes)}
    found = examples.find(site.evidence, audit.suspects)
    row_of = {name: row for row, name in enumerate(site.evidence.names)}
    issues: list[dict[str, Any]] = [
        {"kind": kind, "names": names, "text": text}
        | {"rows": [row_of[name] for name in names if name in row_of]}
        for kind, names, text in site.other_issues
    ]
    album = _Album(site, folder)
    album.add([suspect.row for suspect in audit.suspects])
    album.add(row for pair in found.nearest for rows in pair for row in rows)
    album.add(row for rows in found.typical.values() for row in rows)
    album.add(row for issue in issues[:PICTURED] for row in issue["rows"])
    album.enlarge([suspect.row for suspect in audit.suspects])
    return vars(audit) | {
        "data": _identity(audit, site),
        "kind": site.kind,
        "rate": astuple(audit.rate),
        "per_class": [
            {"at": at[c.name], "labels": c.labels, "wrong": astuple(c.wrong)}
            for c in audit.per_class
        ],
        "pairs": [
            {"given": at[p.given], "likely": at[p.likely]}
            | {"count": p.count, "rate": astuple(p.rate)}
            for p in audit.pairs
        ],
        "suspects": [
            _suspect(suspect, at, near)
            for suspect, near in zip(audit.suspects, found.nearest, strict=True)
        ],
        "rows": album.samples,
        "typical": found.typical,
        "issues": issues,
    }


def _suspect(
    suspect: Suspect, at: dict[str, int], near: tuple[tuple[int, ...], tuple[int, ...]]
) -> dict[str, Any]:
    return {
        "row": suspect.row,
        "given": at[suspect.given],
        "suggested": at[suspect.suggested],
        "probability": min(round(suspect.probability, 4), 0.9999),  # never surely wrong
        "confidence": round(suspect.confidence, 4),
        "reason": suspect.reason,
        "near": near,
    }


def _identity(audit: Audit, site: SiteAudit) -> str:
    """The same for every audit of the same data, whatever its labels have become.

    Decisions are kept under it. Names alone would not do: "1", "2", "3" are in many tables.
    """
    n = len(site.evidence)
    rows = range(0, n, max(1, n // _LOOKED_AT))
    seen = [(site.pictures(row) or b"").hex() or site.features(row) for row in rows]
    known = [audit.site, list(site.evidence.names), seen]
    return hashlib.sha256(canonical_json(known).encode()).hexdigest()[:16]


class _Album:
    """Samples as the page shows them; what comes first has its picture before the room is used."""

    def __init__(self, site: SiteAudit, folder: Path) -> None:
        self.site, self.folder, self.left = site, folder, BUDGET
        self.samples: dict[int, dict[str, Any]] = {}
        self.full: set[int] = set()  # thumbnails as large as they may be: there is more to see

    def add(self, rows: Iterable[int]) -> None:
        """Thumbnails, and the address of the original where a browser can show it."""
        for row in rows:
            if row not in self.samples:
                self.samples[row] = self._sample(row)

    def _sample(self, row: int) -> dict[str, Any]:
        evidence, site = self.site.evidence, self.site
        name, source = evidence.names[row], site.sources(row)
        sample: dict[str, Any] = {"name": name, "label": int(evidence.given[row])}
        picture = site.pictures(row)
        if picture is None:
            return sample | {"words": self._words(site.features(row))}
        sample["picture"] = self._embedded(picture, name)
        if source is not None:
            sample["file"] = originals.link(source, self.folder)
        if sample.get("file") is None and _is_cut(picture):
            self.full.add(row)
        return sample

    def enlarge(self, rows: Iterable[int]) -> None:
        """Large pictures into the file, where no original can be shown."""
        for row in rows:
            picture = self.site.pictures(row, LARGE) if row in self.full else None
            if picture is None:
                continue
            large = self._embedded(picture, self.samples[row]["name"])
            if large is None:  # to try the others would take long, and hardly any would fit
                return
            self.samples[row]["large"] = large

    def _embedded(self, picture: bytes, name: str) -> str | None:
        if len(picture) > self.left:
            return None
        self.left -= len(picture)
        return _address(picture, name)

    def _words(self, words: Words) -> Words:
        longest = LONGEST if self.left > 0 else SHORT
        if isinstance(words, str) and len(words) > longest:
            words = f"{words[:longest]}\n… ({len(words) - longest:,} more characters)"
        self.left -= len(words)
        return words


def _is_cut(picture: bytes) -> bool:
    try:
        with Image.open(io.BytesIO(picture)) as image:
            return max(image.size) >= SIDE
    except OSError:  # the page says that it cannot be shown
        return False


def _address(picture: bytes, name: str) -> str:
    for signature, kind in _SIGNATURES.items():
        if picture.startswith(signature):
            return f"data:{kind};base64,{base64.b64encode(picture).decode()}"
    raise DataError(
        f"Expected a PNG or JPEG thumbnail of {name}; got bytes that begin with {picture[:8]!r}. "
        "Convert the picture, or give None to show the features instead."
    )
