"""README.md of a folder of results: every table and figure of the paper, with our numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from flr.paper.claims.comparisons import AllResults
from flr.paper.experiment import papers_order
from flr.paper.pages import experiment as experiments
from flr.report import html
from flr.study.experiment_results import ExperimentResults

PAGE = "README.md"


def text(found: Mapping[str, AllResults]) -> str:
    """The whole page."""
    template = html.environment("flr.paper").get_template("results.md")
    by_name = {
        name: {scale: results[name] for scale, results in found.items() if name in results}
        for name in papers_order()
    }
    return template.render(found=by_name, scales=list(found), shown=shown, runs=runs) + "\n"


def runs(results: ExperimentResults | None) -> str:
    """How many of an experiment's runs are there."""
    if results is None or not results.configs:
        return "–"
    there, total = len(results.cells), len(results.configs)
    return f"all {total}" if there == total else f"{there} of {total}"


def shown(results: ExperimentResults) -> Iterator[str]:
    """The table and the picture that were written."""
    experiment, folder = results.experiment, experiments.folder_of(results)
    written = results.cells or not results.configs
    if written and (folder / "table.md").exists():
        yield (folder / "table.md").read_text(encoding="utf-8").strip()
    if written and (folder / "figure.png").exists():
        yield f"![{experiment.title}]({folder.name}/figure.png)"
