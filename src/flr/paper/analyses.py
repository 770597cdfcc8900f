"""What is looked at besides the cells' numbers: partitions, wrong labels, learned features."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch

from flr.data.dataset import Dataset
from flr.models import model_file
from flr.models.networks import embed
from flr.paper.figures import Embedded, tsne
from flr.report.table import Table
from flr.scenario.noises import asymmetric
from flr.scenario.scenario import Scenario
from flr.scenario.truth import Truth
from flr.study.experiment import Coordinates
from flr.study.experiment_results import ExperimentResults

Matrix = np.ndarray[Any, Any]

SAMPLES = 1000  # of the t-SNE pictures


def partitions(results: ExperimentResults) -> tuple[dict[str, Matrix], tuple[str, ...]]:
    """Samples of each class at each site, sites x classes, for each setting."""
    found: dict[str, Matrix] = {}
    classes: tuple[str, ...] = ()
    for title, dataset, scenario in _scenarios(results):
        classes, labels = dataset.classes, dataset.train.y
        found[title] = np.stack(
            [np.bincount(labels[site].numpy(), minlength=len(classes)) for site in scenario.sites]
        )
    return found, classes


def sizes(counts: Mapping[str, Matrix]) -> Table:
    """The pictures in numbers."""
    rows = []
    for title, matrix in counts.items():
        per_site, held = matrix.sum(1), (matrix > 0).sum(1)
        span = (f"{per_site.min():,} to {per_site.max():,}", f"{held.min()} to {held.max()}")
        rows.append((title, f"{len(matrix)}", *span))
    heads = ("partition", "sites", "samples of a site", "classes of a site")
    return Table(heads, rows, "How the training samples are spread over sites.")


def transitions(results: ExperimentResults) -> tuple[dict[str, Matrix], list[str]]:
    """Shares of true labels (rows) that were given as each label, over all sites."""
    found: dict[str, Matrix] = {}
    names: list[str] = []
    for title, dataset, scenario in _scenarios(results):
        truth = Truth.of(scenario, dataset)
        n = len(dataset.classes)
        pairs = truth.true.flat * n + truth.given.flat
        matrix = np.bincount(pairs.numpy(), minlength=n * n).reshape(n, n)
        order = side_by_side(dataset)
        found[title] = (matrix / matrix.sum(1, keepdims=True))[np.ix_(order, order)]
        names = [dataset.classes[label] for label in order]
    return found, names


def side_by_side(dataset: Dataset) -> list[int]:
    """Class numbers, with those next to each other that are mistaken for one another."""
    mistaken = asymmetric.resolve("auto", dataset.classes, dataset.noise_map).tolist()
    order: list[int] = []
    for label in range(len(mistaken)):
        while label not in order:
            order.append(label)
            label = mistaken[label]
    return order


def rates(matrices: Mapping[str, Matrix]) -> Table:
    """The pictures in numbers."""
    rows = []
    for title, matrix in matrices.items():
        wrong = 1 - np.diag(matrix)
        shown = (wrong.mean(), wrong.min(), wrong.max())
        rows.append((title, *(f"{100 * value:.2f}" for value in shown)))
    heads = ("noise", "wrong labels, mean over classes (%)", "least", "most")
    return Table(heads, rows, "How many labels of a class are wrong.")


def embedded(results: ExperimentResults) -> tuple[list[Embedded], tuple[str, ...]]:
    """The same training samples in the features of each row's model, by t-SNE."""
    experiment, seed = results.experiment, results.seeds[0]
    setting = next(iter(experiment.settings))
    panels = []
    classes: tuple[str, ...] = ()
    for row in experiment.rows.values():
        place = Coordinates(row.key, setting, seed)
        dataset, scenario = results.runner.scenario(results.configs[place])
        classes = dataset.classes
        step = max(1, len(scenario.index) // SAMPLES)
        chosen, given = scenario.index[::step][:SAMPLES], scenario.labels[::step][:SAMPLES]
        model = model_file.load(results.runner.model(results.cells[place].hash))
        images = dataset.normalize(dataset.train.inputs[chosen])
        with torch.no_grad():
            _, features = embed(model.networks[0].eval(), images)
        points = tsne(features.numpy(), seed)
        true = dataset.train.y[chosen].numpy()
        panels.append(Embedded(row.title, points, given.numpy(), true))
    return panels, classes


def _scenarios(results: ExperimentResults) -> Iterator[tuple[str, Dataset, Scenario]]:
    """The samples and labels of each setting, before any training."""
    for setting in results.experiment.settings.values():
        place = Coordinates("", setting.key, results.seeds[0])
        config = results.experiment.config(place, results.runner.changes)
        yield setting.title, *results.runner.scenario(config)
