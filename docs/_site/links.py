"""Links to what a forge shows and the site has not: folders, and Markdown that is no page of it."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

from sphinx.application import Sphinx

LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(((?!https?:|mailto:|#)[^)\s#]+)(#[^)\s]*)?\)")
FENCED = re.compile(r"^```.*?^```$", re.M | re.S)


def names_instead(text: str, folder: Path, pages: frozenset[Path]) -> str:
    """Markdown in which such a link is its text; other files become downloads."""

    def plain(match: re.Match[str]) -> str:
        target = (folder / match[2]).resolve()
        unknown = target.suffix == ".md" and target.exists() and target not in pages
        return match[1] if target.is_dir() or unknown else match[0]

    places = [0, *(end for m in FENCED.finditer(text) for end in m.span()), len(text)]
    parts = [text[a:b] for a, b in pairwise(places)]
    return "".join(p if n % 2 else LINK.sub(plain, p) for n, p in enumerate(parts))


def on_read(app: Sphinx, docname: str, content: list[str]) -> None:
    """Called with each page's text before it is parsed."""
    path = Path(app.env.doc2path(docname))
    if path.suffix == ".md":
        pages = frozenset(Path(app.env.doc2path(name)).resolve() for name in app.env.found_docs)
        content[0] = names_instead(content[0], path.parent, pages)


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("source-read", on_read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
