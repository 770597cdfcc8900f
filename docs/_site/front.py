"""The first page: its lists of links are the contents, and the site's address leads to it."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from sphinx.application import Sphinx

GROUP = re.compile(r"^\*\*([^*]+)\*\*", re.M)
PAGE = re.compile(r"\]\(([^)#:\s]+)\.(?:md|ipynb)\)")
REDIRECT = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="refresh" content="0; url={first}">
<title>flr</title>
<p><a href="{first}">Documentation of flr</a></p>
</html>
"""


def contents(text: str) -> str:
    """The first page's lists as tables of contents, each page once, under the bold word above."""
    _, *parts = GROUP.split(text)
    seen: set[str] = set()
    blocks = []
    for caption, links in zip(parts[::2], parts[1::2], strict=True):
        pages = [page for page in dict.fromkeys(PAGE.findall(links)) if page not in seen]
        seen.update(pages)
        blocks.append("```{toctree}\n:hidden:\n:caption: " + "\n".join([caption, "", *pages]))
    return "\n```\n\n".join([*blocks, ""])


def on_read(app: Sphinx, docname: str, content: list[str]) -> None:
    """Adds the contents to the first page: on a forge the lists are enough."""
    if docname == app.config.root_doc:
        content[0] += "\n\n" + contents(content[0])


def write(app: Sphinx, error: Exception | None) -> None:
    """Writes index.html, which leads to the first page."""
    if error is None and app.builder.format == "html":
        first = posixpath.join(".", app.builder.get_target_uri(app.config.root_doc))
        (Path(app.outdir) / "index.html").write_text(REDIRECT.format(first=first), encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("source-read", on_read)
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
