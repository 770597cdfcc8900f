"""From finished cells to what the paper prints: for each kind of table or figure, one function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from matplotlib.figure import Figure

from flr.report import figures
from flr.reproduce import looks, tables
from flr.reproduce.experiment import Experiment, Part
from flr.reproduce.grids import Grid
from flr.reproduce.runner import Outcome

T = TypeVar("T")


@dataclass(frozen=True)
class Shown:
    """A table, a picture, or both."""

    grid: Grid | None = None
    figure: Figure | None = None


def show(outcome: Outcome) -> Shown:
    """The table or figure of an experiment."""
    return KINDS[outcome.experiment.shows](outcome)


def accuracy_table(outcome: Outcome) -> Shown:
    """Rows by settings."""
    return Shown(tables.accuracy(outcome))


def memorization_table(outcome: Outcome) -> Shown:
    """What became of right and wrong labels, ours above the paper's."""
    return Shown(tables.memorization(outcome))


def related_table(outcome: Outcome) -> Shown:
    """Properties of methods; nothing is trained."""
    return Shown(tables.related(outcome.experiment))


def overview(_outcome: Outcome) -> Shown:
    """The diagram of FLR; nothing is trained."""
    return Shown(figure=figures.overview())


def memorization_curves(outcome: Outcome) -> Shown:
    """The first row in the first setting, over rounds."""
    row, setting = _first(outcome.experiment)
    title = f"{row.title}: {setting.title}"
    curves = outcome.curves(row.key, setting.key)
    return Shown(tables.everything(outcome), figures.memorization(curves, title))


def accuracy_curves(outcome: Outcome) -> Shown:
    """One panel for each setting, one line for each method."""
    panels = _by_setting(outcome.experiment, outcome.curves)
    return Shown(tables.everything(outcome), figures.accuracy(panels))


def bars(outcome: Outcome) -> Shown:
    """Groups of bars, one group for each setting."""
    groups = _by_setting(outcome.experiment, outcome.scores)
    return Shown(tables.accuracy(outcome), figures.bars(groups, _unit(outcome.experiment)))


def lines(outcome: Outcome) -> Shown:
    """Panels of settings (or of rows), with the settings' `x` along the axis."""
    experiment = outcome.experiment
    panels: dict[str, dict[str, dict[str, Sequence[float]]]] = {}
    for setting in experiment.settings.values():
        for row in experiment.rows_in(setting.key):
            for panel in (row.panel or setting.panel).split("|"):
                line = panels.setdefault(panel, {}).setdefault(row.title, {})
                line[setting.x] = outcome.scores(row.key, setting.key)
    label = str(experiment.document["x_label"])
    return Shown(tables.accuracy(outcome), figures.lines(panels, label, _unit(experiment)))


def ablation(outcome: Outcome) -> Shown:
    """A heat map over alpha and gamma in one setting, curves for several beta in the other."""
    experiment = outcome.experiment
    heat, beta = experiment.settings
    cells: dict[tuple[float, float], Sequence[float]] = {}
    for row in experiment.rows_in(heat):
        options: Any = row.config["method"]
        cells[options["alpha"], options["gamma"]] = outcome.scores(row.key, heat)
    curves = {row.title: outcome.curves(row.key, beta) for row in experiment.rows_in(beta)}
    return Shown(tables.everything(outcome), figures.ablation(cells, curves))


def tsne(outcome: Outcome) -> Shown:
    """Features of two models on the same training samples, first seed."""
    panels, classes = looks.embedded(outcome)
    return Shown(tables.everything(outcome), figures.embedding(panels, classes))


def partitions(outcome: Outcome) -> Shown:
    """How each setting spreads the classes over sites; nothing is trained."""
    counts, classes = looks.partitions(outcome)
    return Shown(looks.sizes(counts), figures.partitions(counts, classes))


def transition(outcome: Outcome) -> Shown:
    """What each setting makes of the true labels; nothing is trained."""
    matrices, classes = looks.transitions(outcome)
    return Shown(looks.rates(matrices), figures.transition(matrices, classes))


KINDS: dict[str, Callable[[Outcome], Shown]] = {
    "accuracy-table": accuracy_table,
    "memorization-table": memorization_table,
    "related-table": related_table,
    "overview": overview,
    "memorization-curves": memorization_curves,
    "accuracy-curves": accuracy_curves,
    "bars": bars,
    "lines": lines,
    "ablation": ablation,
    "tsne": tsne,
    "partitions": partitions,
    "transition": transition,
}


def _first(experiment: Experiment) -> tuple[Part, Part]:
    return next(iter(experiment.rows.values())), next(iter(experiment.settings.values()))


def _by_setting(experiment: Experiment, look: Callable[[str, str], T]) -> dict[str, dict[str, T]]:
    """What a look at each cell gives, by the titles of setting and row."""
    return {
        setting.title: {row.title: look(row.key, setting.key) for row in experiment.rows_in(key)}
        for key, setting in experiment.settings.items()
    }


def _unit(experiment: Experiment) -> str:
    return f"test accuracy, {experiment.score} (%)"
