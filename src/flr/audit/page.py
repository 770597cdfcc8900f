"""The page on which a person goes through the suspects: one file that asks nobody for anything."""

from __future__ import annotations

import base64
import hashlib
import json
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from flr.audit.findings import Audit
from flr.audit.page_content import content
from flr.core.arrays import write_atomically

if TYPE_CHECKING:
    from flr.audit.site_audit import SiteAudit

_SCRIPTS = (
    *("start", "csv", "studio", "decisions", "earlier", "chooser", "viewer", "samples", "cards"),
    *("grid", "pager", "bulk", "second", "review", "files", "overview", "run"),
)
_ESCAPES = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&"}


def write_page(audit: Audit, site: SiteAudit, path: Path) -> None:
    """Writes the page; a sample without a picture shows its text or its features instead.

    Labels and names reach the page as JSON and are shown as text only: they cannot run as code.
    The policy allows our own style and script and pictures inside the file; nothing is fetched.
    Where the originals can be shown, the policy allows pictures from `file:` as well, this
    computer's own disk, and nothing else: a page that lies on a server shows its thumbnails.
    """
    found = content(audit, site, path.parent)
    linked = any(sample.get("file") for sample in found["rows"].values())
    style, script = _text("audit.css"), "".join(_text(f"{name}.js") for name in _SCRIPTS)
    policy = (
        f"default-src 'none'; img-src data:{' file:' if linked else ''}; "
        f"style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    # plain ASCII without a character that means something to an HTML parser
    data = json.dumps(found, separators=(",", ":"), allow_nan=False).translate(_ESCAPES)
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
