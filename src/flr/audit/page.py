"""The page on which a person goes through the suspects: one file that asks nobody for anything."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from flr.arrays import write_atomically
from flr.audit.findings import Audit, Rate, Suspect
from flr.errors import DataError

NAME = "audit.html"

Pictures = Callable[[int], bytes | None]
Features = Callable[[int], str]

_STYLES = ("audit.css",)
_SCRIPTS = (
    "start.js",
    "csv.js",
    "decisions.js",
    "chooser.js",
    "cards.js",
    "review.js",
    "overview.js",
)
_SIGNATURES = {b"\x89PNG\r\n": "image/png", b"\xff\xd8\xff": "image/jpeg"}
_ESCAPES = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&"}


def write_page(audit: Audit, pictures: Pictures, features: Features, path: Path) -> None:
    """Writes the page; a sample without a picture (PNG or JPEG) shows its features instead.

    Labels and names reach the page as JSON and are shown as text only: they cannot run as code.
    """
    style, script = _joined(_STYLES), _joined(_SCRIPTS)
    page = _environment().get_template("audit.html")
    text = page.render(
        policy=_policy(style, script),
        style=Markup(style),  # noqa: S704  our own file, whose hash the policy names
        script=Markup(script),  # noqa: S704
        data=Markup(_inert(_content(audit, pictures, features))),  # noqa: S704
    )
    write_atomically(path, text)


def _policy(style: str, script: str) -> str:
    """Only this style and this script work, pictures are inside the file, nothing is fetched."""
    return "; ".join(
        (
            "default-src 'none'",
            "img-src data:",
            f"style-src '{_hash(style)}'",
            f"script-src '{_hash(script)}'",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _inert(content: dict[str, Any]) -> str:
    """JSON in plain ASCII without a character that means something to an HTML parser."""
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    return text.translate(_ESCAPES)


def _content(audit: Audit, pictures: Pictures, features: Features) -> dict[str, Any]:
    """What the scripts read; classes by position, since a name may be long and often repeated."""
    at = {name: i for i, name in enumerate(audit.classes)}
    return {
        "site": audit.site,
        "samples": audit.samples,
        "classes": audit.classes,
        "verdict": audit.verdict,
        "rate": _rate(audit.rate),
        "per_class": [
            {"at": at[c.name], "labels": c.labels, "wrong": _rate(c.wrong)} for c in audit.per_class
        ],
        "pairs": [
            {"given": at[p.given], "likely": at[p.likely], "count": p.count, "rate": _rate(p.rate)}
            for p in audit.pairs
        ],
        "suspects": [_suspect(s, at, pictures, features) for s in audit.suspects],
        "budget": audit.budget,
        "unchecked": audit.unchecked,
        "source": audit.source,
        "scorer": audit.scorer,
        "key": audit.key,
    }


def _suspect(
    suspect: Suspect, at: dict[str, int], pictures: Pictures, features: Features
) -> dict[str, Any]:
    picture = pictures(suspect.row)
    return {
        "name": suspect.name,
        "given": at[suspect.given],
        "suggested": at[suspect.suggested],
        "probability": round(suspect.probability, 4),
        "confidence": round(suspect.confidence, 4),
        "reason": suspect.reason,
        "picture": None if picture is None else _address(picture, suspect.name),
        "features": features(suspect.row) if picture is None else "",
    }


def _address(picture: bytes, name: str) -> str:
    for signature, kind in _SIGNATURES.items():
        if picture.startswith(signature):
            return f"data:{kind};base64,{base64.b64encode(picture).decode()}"
    raise DataError(
        f"Expected a PNG or JPEG thumbnail of {name}; got bytes that begin with {picture[:8]!r}. "
        "Convert the picture, or give None to show the features instead."
    )


def _rate(rate: Rate) -> tuple[float, float, float]:
    return rate.estimate, rate.low, rate.high


def _joined(names: tuple[str, ...]) -> str:
    return "".join(_source(name) for name in names)


def _source(name: str) -> str:
    environment = _environment()
    assert environment.loader is not None  # noqa: S101
    return environment.loader.get_source(environment, name)[0]


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("flr.audit"),
        autoescape=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
