"""The page on which a person goes through the suspects: one file that asks nobody for anything."""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import astuple
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from flr.audit.findings import Audit, Suspect
from flr.audit.pictures import Texts, Thumbnails
from flr.core.arrays import write_atomically
from flr.core.errors import DataError

_SCRIPTS = ("start", "csv", "decisions", "chooser", "cards", "review", "overview")
_SIGNATURES = {b"\x89PNG\r\n": "image/png", b"\xff\xd8\xff": "image/jpeg"}
_ESCAPES = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&"}


def write_page(audit: Audit, pictures: Thumbnails, features: Texts, path: Path) -> None:
    """Writes the page; a sample without a picture (PNG or JPEG) shows its features instead.

    Labels and names reach the page as JSON and are shown as text only: they cannot run as code.
    The policy allows our own style and script and pictures inside the file; nothing is fetched.
    """
    style, script = _text("audit.css"), "".join(_text(f"{name}.js") for name in _SCRIPTS)
    policy = (
        f"default-src 'none'; img-src data:; style-src '{_hash(style)}'; "
        f"script-src '{_hash(script)}'; base-uri 'none'; form-action 'none'"
    )
    # plain ASCII without a character that means something to an HTML parser
    data = json.dumps(
        _content(audit, pictures, features), separators=(",", ":"), allow_nan=False
    ).translate(_ESCAPES)
    page = Environment(autoescape=True, undefined=StrictUndefined, keep_trailing_newline=True)
    text = page.from_string(_text("audit.html")).render(
        policy=policy,
        style=Markup(style),  # noqa: S704  our own file, whose hash the policy names
        script=Markup(script),  # noqa: S704
        data=Markup(data),  # noqa: S704
    )
    write_atomically(path, text)


def _text(name: str) -> str:
    return (files("flr.audit") / "templates" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _content(audit: Audit, pictures: Thumbnails, features: Texts) -> dict[str, Any]:
    """What the scripts read; classes by position, since a name may be long and often repeated."""
    at = {name: i for i, name in enumerate(audit.classes)}
    return vars(audit) | {
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
        "suspects": [_suspect(s, at, pictures, features) for s in audit.suspects],
    }


def _suspect(
    suspect: Suspect, at: dict[str, int], pictures: Thumbnails, features: Texts
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
