"""What readers see of results: a page for each table or figure, and those over all of them."""

from __future__ import annotations

from pathlib import Path

from flr.core.arrays import write_atomically
from flr.paper import outputs
from flr.paper.experiment import load, papers_order
from flr.paper.pages import claims, experiment, headline, overview
from flr.paper.runner import ExperimentResults, Runner


def gather(folder: Path) -> dict[str, ExperimentResults]:
    """All tables and figures in the order of the paper, with the cells that are there."""
    runner = Runner(folder)
    return {name: runner.gather(load(name)) for name in papers_order()}


def write_all(folder: Path) -> list[Path]:
    """Every table that is made of cells, and the pages over all of them; trains nothing."""
    found, files = gather(folder), []
    for results in found.values():
        if results.cells:
            files += experiment.write_tables(results, outputs.table(results))
    texts = {overview.PAGE: overview.text(found.values()), claims.PAGE: claims.text(found)}
    for name, text in texts.items():
        write_atomically(folder / name, text)
    return [*files, *(folder / name for name in texts), *headline.write(found[headline.EXPERIMENT])]
