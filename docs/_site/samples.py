"""The directive `samples`: pages that `flr` writes while the site is built, to click on.

Three runs on digits, of seconds each, the audit of the images that a page of the documentation
makes, and a table from the cells in `results/`; none of it is committed. Each page is one file; the
audit's looks its images up where they lie, to enlarge them.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

ROOT = Path(__file__).resolve().parents[2]
TABLE = "table-memorization"
AGAIN = f"flr reproduce {TABLE} --out results"
PAGES = {
    "runs/index.html": ("Three methods compared", "flr demo"),
    "runs/flr/report.html": ("The report of a run", "flr run experiment.toml"),
    "audit/audit.html": ("The audit of a site's labels", "flr audit scans labels.csv"),
    f"results/{TABLE}-laptop/index.html": (
        "A table of the paper with what was measured here",
        AGAIN,
    ),
}
# What the demo does, with fewer sites and rounds: a builder of pages does not wait for a minute.
SETTING: dict[str, Any] = {
    "rounds": 15,
    "workers": 1,
    "data": {"name": "digits"},
    "partition": {"kind": "iid", "clients": 8},
    "noise": {"kind": "symmetric", "clients": 1.0, "floor": 0.3},
    "train": {"model": "mlp", "participation": 0.5, "epochs": 3, "batch": 10}
    | {"lr": 0.1, "momentum": 0.5},
    "eval": {"memorization_every": 3},
}


def make(folder: Path) -> None:
    """Writes the pages; a folder that has them is left alone."""
    if all((folder / page).is_file() for page in PAGES):
        return
    shutil.rmtree(folder, ignore_errors=True)
    compare(folder / "runs")
    audit(folder)
    reproduce(folder / "results")


def compare(folder: Path) -> None:
    """Runs of three methods, and the page over them."""
    import flr
    from flr.report import html, plots

    runs = {
        name: flr.run(SETTING | {"method": name}, out=folder / name)
        for name in ("fedavg", "elr", "flr")
    }
    plots.comparison({name: run.metrics for name, run in runs.items()}, folder / html.COMPARISON)
    html.comparison_page(folder, {name: run.summary for name, run in runs.items()})


def audit(folder: Path) -> None:
    """What the page `check-my-labels.md` does: images with some wrong labels, and their audit."""
    page = (ROOT / "docs" / "start" / "check-my-labels.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(.*?)^```$", page, re.M | re.S)
    command = ["-m", "flr.cli.main", "audit", "scans", "labels.csv", "--out", "audit"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    for words in (["-c", code], command):
        words = [sys.executable, *words]
        subprocess.run(words, cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)


def reproduce(folder: Path) -> None:
    """A table from the cells that are committed; nothing is trained."""
    from flr.paper.experiment import load
    from flr.paper.pages import experiment
    from flr.study.runner import Runner

    shutil.copytree(ROOT / "results" / "cells", folder / "cells")
    experiment.write(Runner(folder).gather(load(TABLE, "laptop")), AGAIN)


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


def folder_of(app: Sphinx) -> Path:
    """Where the pages are kept between builds."""
    return Path(app.doctreedir) / "samples"


def before(app: Sphinx) -> None:
    """Makes the pages before the site is built."""
    make(folder_of(app))


def after(app: Sphinx, error: Exception | None) -> None:
    """Copies the pages into the site."""
    if error is None and app.builder.format == "html":
        for page in PAGES:
            target = Path(app.outdir) / "samples" / page
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(folder_of(app) / page, target)
            target.chmod(0o644)  # an audit's page is for its owner only; this one shows digits
        shutil.copytree(
            folder_of(app) / "scans", Path(app.outdir) / "samples" / "scans", dirs_exist_ok=True
        )


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_directive("samples", Samples)
    app.connect("builder-inited", before)
    app.connect("build-finished", after)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
