"""The directive `gallery`: every picture in `results/`, with the command that makes it below."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from docutils.nodes import Node
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

ROOT = Path(__file__).resolve().parents[2]
ALL_PAGES = "flr reproduce --pages --out results"
FOLDER = re.compile(r"(?P<name>.+)-(?P<scale>laptop|features|middle|paper)")


def pictures(root: Path = ROOT) -> Iterator[tuple[Path, str, str]]:
    """Path, title and command of each picture."""
    titles = dict(titles_of(root))
    for path in sorted((root / "results").rglob("*.png")):
        yield path, titles.get(path, path.stem), command_of(path)


def command_of(picture: Path) -> str:
    """What makes a picture again: that of its table or figure, or that of the pages over all."""
    parts = FOLDER.fullmatch(picture.parent.name)
    if parts is None:
        return ALL_PAGES
    scale = "" if parts["scale"] == "laptop" else f" --scale {parts['scale']}"
    return f"flr reproduce {parts['name']}{scale} --out results"


def titles_of(root: Path) -> Iterator[tuple[Path, str]]:
    """What the pages that show a picture call it; the page of all results has the last word."""
    for page in (*sorted((root / "results").glob("*.md"), reverse=True), root / "README.md"):
        for title, path in re.findall(r"!\[(.+)\]\(([^)]+\.png)\)", page.read_text("utf-8")):
            yield (page.parent / path).resolve(), title


class Gallery(SphinxDirective):
    """Writes a section for each picture."""

    def run(self) -> list[Node]:
        """Called by Sphinx where the directive stands."""
        here = Path(self.env.doc2path(self.env.docname)).parent
        text = []
        for path, title, command in pictures():
            self.env.note_dependency(str(path))
            shown = os.path.relpath(path, here)
            text.append(f"## {title}\n\n![{title}]({shown})\n\n```sh\n{command}\n```\n")
        return self.parse_text_to_nodes("\n".join(text), allow_section_headings=True)


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_directive("gallery", Gallery)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
