"""Links that lead out of the site: to folders and to sources, which a forge shows and a site does not."""

from __future__ import annotations

import re
from pathlib import Path

from sphinx.application import Sphinx

LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(((?!https?:|mailto:|#)[^)\s#]+)(#[^)\s]*)?\)")
FENCED = re.compile(r"^```.*?^```$", re.M | re.S)


def names_instead(text: str, folder: Path, known: frozenset[Path]) -> str:
    """Markdown in which a link to no page of the site is its text, with the path behind it."""

    def plain(match: re.Match[str]) -> str:
        target = (folder / match[2]).resolve()
        if target in known or not target.exists():  # what does not exist, Sphinx reports
            return match[0]
        return match[1] if match[1].startswith("`") else f"{match[1]} (`{match[2].lstrip('./')}`)"

    places = [0, *(end for m in FENCED.finditer(text) for end in m.span()), len(text)]
    parts = [text[a:b] for a, b in zip(places, places[1:], strict=False)]
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
