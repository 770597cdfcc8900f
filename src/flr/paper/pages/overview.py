"""README.md of a folder of results: every table and figure of the paper, with our numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from flr.paper.pages import experiment as experiments
from flr.paper.runner import ExperimentResults
from flr.report import html

PAGE = "README.md"


def text(found: Iterable[ExperimentResults]) -> str:
    """The whole page."""
    template = html.environment("flr.paper").get_template("results.md")
    return template.render(found=list(found), shown=shown) + "\n"


def shown(results: ExperimentResults) -> Iterator[str]:
    """The table and the picture that were written, and what the claims came to."""
    experiment, folder = results.experiment, experiments.folder_of(results)
    written = results.cells or not results.configs
    if written and (folder / "table.md").exists():
        yield (folder / "table.md").read_text(encoding="utf-8").strip()
    if written and (folder / "figure.png").exists():
        yield f"![{experiment.title}]({folder.name}/figure.png)"
    if results.cells and experiment.claims:
        verdicts = (judged.verdict for judged in experiments.verdicts(results))
        yield f"[Claims](claims.md): {experiments.counted(verdicts)}."
