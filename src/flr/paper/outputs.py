"""From finished cells to what the paper prints: the table and the picture of each kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from matplotlib.figure import Figure

from flr.paper import analyses, figures, tables
from flr.report.table import Table
from flr.study.experiment import Experiment
from flr.study.experiment_results import ExperimentResults

T = TypeVar("T")
UNIT = "test accuracy, last ten rounds (%)"


def table(results: ExperimentResults) -> Table | None:
    """The table of an experiment, or the numbers of its picture."""
    make, _ = KINDS[results.experiment.shows]
    return make and make(results)


def figure(results: ExperimentResults) -> Figure | None:
    """The picture of an experiment."""
    _, draw = KINDS[results.experiment.shows]
    return draw and draw(results)


def memorization_curves(results: ExperimentResults) -> Figure:
    """The first row in the first setting, over rounds."""
    row = next(iter(results.experiment.rows.values()))
    setting = next(iter(results.experiment.settings.values()))
    curves = results.curves(row.key, setting.key)
    return figures.memorization(curves, f"{row.title}: {setting.title}")


def accuracy_curves(results: ExperimentResults) -> Figure:
    """One panel for each setting, one line for each method."""
    return figures.accuracy(_by_setting(results.experiment, results.curves))


def bars(results: ExperimentResults) -> Figure:
    """Groups of bars, one group for each setting."""
    groups = _by_setting(results.experiment, results.late)
    return figures.bars(groups, UNIT)


def lines(results: ExperimentResults) -> Figure:
    """Panels of settings (or of rows), with the settings' `x` along the axis."""
    experiment = results.experiment
    panels: dict[str, dict[str, dict[str, Sequence[float]]]] = {}
    for setting in experiment.settings.values():
        for row in experiment.rows_in(setting.key):
            for panel in (row.panel or setting.panel).split("|"):
                line = panels.setdefault(panel, {}).setdefault(row.title, {})
                line[setting.x] = results.late(row.key, setting.key)
    return figures.lines(panels, str(experiment.document["x_label"]), UNIT)


def ablation(results: ExperimentResults) -> Figure:
    """A heat map over alpha and gamma in one setting, curves for several beta in the other."""
    experiment = results.experiment
    heat, beta = experiment.settings
    cells: dict[tuple[float, float], Sequence[float]] = {}
    for row in experiment.rows_in(heat):
        options: Any = row.config["method"]
        cells[options["alpha"], options["gamma"]] = results.late(row.key, heat)
    curves = {row.title: results.curves(row.key, beta) for row in experiment.rows_in(beta)}
    return figures.ablation(cells, curves)


KINDS: dict[
    str,
    tuple[
        Callable[[ExperimentResults], Table] | None, Callable[[ExperimentResults], Figure] | None
    ],
] = {
    "accuracy-table": (tables.accuracy, None),
    "memorization-table": (tables.memorization, None),
    "related-table": (tables.related, None),
    "overview": (None, lambda _: figures.overview()),
    "memorization-curves": (tables.everything, memorization_curves),
    "accuracy-curves": (tables.everything, accuracy_curves),
    "bars": (tables.accuracy, bars),
    "lines": (tables.accuracy, lines),
    "ablation": (tables.everything, ablation),
    "tsne": (tables.everything, lambda results: figures.embedding(*analyses.embedded(results))),
    "partitions": (
        lambda results: analyses.sizes(analyses.partitions(results)[0]),
        lambda results: figures.partitions(*analyses.partitions(results)),
    ),
    "transition": (
        lambda results: analyses.rates(analyses.transitions(results)[0]),
        lambda results: figures.transition(*analyses.transitions(results)),
    ),
}


def _by_setting(experiment: Experiment, look: Callable[[str, str], T]) -> dict[str, dict[str, T]]:
    """What a look at each cell gives, by the titles of setting and row."""
    return {
        setting.title: {row.title: look(row.key, key) for row in experiment.rows_in(key)}
        for key, setting in experiment.settings.items()
    }
