"""The directive `samples`: pages that `flr` has written while the site was built, to click on.

Three runs on digits, of seconds each, and a table from the cells in `results/`; nothing of it is
committed. Only the pages go into the site: each of them is one file that needs no other.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

ROOT = Path(__file__).resolve().parents[2]
CONFIG = ROOT / "docs" / "_site" / "sample.toml"
METHODS = ("fedavg", "elr", "flr")
TABLE = "table-memorization"
PAGES = {
    "comparison/index.html": ("A comparison", "flr compare fedavg elr flr --out comparison"),
    "flr/report.html": ("The report of a run", "flr run sample.toml --out flr"),
    "flr/audit/0/audit.html": ("The audit of a site's labels", "flr audit flr --client 0"),
    f"results/{TABLE}-laptop/index.html": (
        "A table of the paper, run again",
        f"flr reproduce {TABLE} --out results",
    ),
}
log = logging.getLogger(__name__)


def make(folder: Path) -> None:
    """Runs what writes the pages; a folder that has them is left alone."""
    if all((folder / page).is_file() for page in PAGES):
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for method in METHODS:
        flr(folder, "run", str(CONFIG), "--set", f"method={method}", "--out", method)
    flr(folder, "audit", "flr", "--client", "0", "--out", "flr/audit/0")
    flr(folder, "compare", *METHODS, "--out", "comparison")
    (folder / "results").mkdir()
    shutil.copytree(ROOT / "results" / "cells", folder / "results" / "cells")
    flr(folder, "reproduce", TABLE, "--out", "results")


def flr(folder: Path, *words: str) -> None:
    """One command of `flr`, of this checkout, in a process of its own."""
    log.info("[samples] flr %s", " ".join(words))
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "flr.cli.main", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, "FLR_BITS": "portable"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"flr {' '.join(words)} ended with {done.returncode}: {done.stderr}")


class Samples(SphinxDirective):
    """Lists the pages with the command below each."""

    def run(self) -> list[nodes.Node]:
        """Called by Sphinx where the directive stands."""
        up = "../" * self.env.docname.count("/")
        found: list[nodes.Node] = []
        for page, (title, command) in PAGES.items():
            line = nodes.paragraph()
            line += nodes.reference("", title, refuri=f"{up}samples/{page}", internal=False)
            found += [line, nodes.literal_block(command, command, language="sh")]
        return found


def before(app: Sphinx) -> None:
    """Makes the pages before the site is built."""
    make(Path(app.doctreedir).parent / "samples")


def after(app: Sphinx, error: Exception | None) -> None:
    """Copies the pages into the site."""
    if error is None and app.builder.format == "html":
        for page in PAGES:
            target = Path(app.outdir) / "samples" / page
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(Path(app.doctreedir).parent / "samples" / page, target)


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_directive("samples", Samples)
    app.connect("builder-inited", before)
    app.connect("build-finished", after)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
