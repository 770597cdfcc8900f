"""Links to folders: a forge shows what is in one, a site cannot. Files become downloads."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

from sphinx.application import Sphinx

LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(((?!https?:|mailto:|#)[^)\s#]+)(#[^)\s]*)?\)")
FENCED = re.compile(r"^```.*?^```$", re.M | re.S)


def names_instead(text: str, folder: Path) -> str:
    """Markdown in which a link to a folder is its text."""

    def plain(match: re.Match[str]) -> str:
        return match[1] if (folder / match[2]).is_dir() else match[0]

    places = [0, *(end for m in FENCED.finditer(text) for end in m.span()), len(text)]
    parts = [text[a:b] for a, b in pairwise(places)]
    return "".join(p if n % 2 else LINK.sub(plain, p) for n, p in enumerate(parts))


def on_read(app: Sphinx, docname: str, content: list[str]) -> None:
    """Called with each page's text before it is parsed."""
    path = Path(app.env.doc2path(docname))
    if path.suffix == ".md":
        content[0] = names_instead(content[0], path.parent)


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("source-read", on_read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
