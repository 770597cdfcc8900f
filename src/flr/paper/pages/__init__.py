"""What readers see of results: a page for each table or figure, and those over all of them."""

from __future__ import annotations

from pathlib import Path

from flr.core.arrays import write_atomically
from flr.paper import outputs
from flr.paper.claims.comparisons import AllResults
from flr.paper.experiment import OVER, load, papers_order, scales
from flr.paper.pages import claims, experiment, headline, overview
from flr.study.runner import Runner


def gather(folder: Path) -> dict[str, AllResults]:
    """All tables and figures in the order of the paper at each scale, with the cells there are."""
    runner = Runner(folder)
    return {
        scale: {
            name: runner.gather(load(name, scale))
            for name in papers_order()
            if scale in scales(name)
        }
        for scale in OVER
    }


def write_all(folder: Path) -> list[Path]:
    """Every table that is made of cells, and the pages over all of them; trains nothing."""
    found = gather(folder)
    with_cells = (each for results in found.values() for each in results.values() if each.cells)
    files = [
        path
        for results in with_cells
        for path in experiment.write_tables(results, outputs.table(results))
    ]
    write_atomically(folder / overview.PAGE, overview.text(found))
    files += [folder / overview.PAGE, *claims.write(found, folder)]
    return [*files, *headline.write(found["laptop"][headline.EXPERIMENT])]
