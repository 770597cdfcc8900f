"""The address of the site itself: it leads to the first page."""

from __future__ import annotations

from pathlib import Path

from sphinx.application import Sphinx

PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="refresh" content="0; url={first}">
<title>flr</title>
<p><a href="{first}">Documentation of flr</a></p>
</html>
"""


def write(app: Sphinx, error: Exception | None) -> None:
    """Writes index.html beside the folders of pages."""
    if error is None and app.builder.format == "html":
        first = app.builder.get_target_uri(app.config.root_doc)
        (Path(app.outdir) / "index.html").write_text(PAGE.format(first=first), encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
