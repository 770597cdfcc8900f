"""What is looked at besides the cells' numbers: partitions, wrong labels, learned features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from flr.client import saved
from flr.client.models import embed
from flr.data.dataset import Dataset
from flr.report.figures import Embedded, tsne
from flr.reproduce.experiment import Place
from flr.reproduce.grids import Grid
from flr.reproduce.runner import Outcome
from flr.scenario import maps
from flr.scenario.oracle import Oracle
from flr.scenario.scenario import Scenario

Matrix = np.ndarray[Any, Any]

SAMPLES = 1000  # of the t-SNE pictures


def partitions(outcome: Outcome) -> tuple[dict[str, Matrix], tuple[str, ...]]:
    """Samples of each class at each site, sites x classes, for each setting."""
    found = {}
    classes: tuple[str, ...] = ()
    for setting in outcome.experiment.settings.values():
        dataset, scenario = _scenario(outcome, setting.key)
        classes, labels = dataset.classes, dataset.train.y
        found[setting.title] = np.stack(
            [np.bincount(labels[site].numpy(), minlength=len(classes)) for site in scenario.sites]
        )
    return found, classes


def sizes(counts: Mapping[str, Matrix]) -> Grid:
    """The pictures in numbers."""
    rows = []
    for title, matrix in counts.items():
        per_site, held = matrix.sum(1), (matrix > 0).sum(1)
        span = (f"{per_site.min():,} to {per_site.max():,}", f"{held.min()} to {held.max()}")
        rows.append((title, f"{len(matrix)}", *span))
    heads = ("partition", "sites", "samples of a site", "classes of a site")
    return Grid("How the training samples are spread over sites.", heads, tuple(rows))


def transitions(outcome: Outcome) -> tuple[dict[str, Matrix], list[str]]:
    """Shares of true labels (rows) that were given as each label, over all sites."""
    found = {}
    names: list[str] = []
    for setting in outcome.experiment.settings.values():
        dataset, scenario = _scenario(outcome, setting.key)
        oracle = Oracle.of(scenario, dataset)
        n = len(dataset.classes)
        pairs = oracle.true.flat * n + oracle.given.flat
        matrix = np.bincount(pairs.numpy(), minlength=n * n).reshape(n, n)
        order = side_by_side(dataset)
        found[setting.title] = (matrix / matrix.sum(1, keepdims=True))[np.ix_(order, order)]
        names = [dataset.classes[label] for label in order]
    return found, names


def side_by_side(dataset: Dataset) -> list[int]:
    """Class numbers, with those next to each other that are mistaken for one another."""
    mistaken = maps.resolve("auto", dataset.classes, dataset.noise_map).tolist()
    order: list[int] = []
    for label in range(len(mistaken)):
        while label not in order:
            order.append(label)
            label = mistaken[label]
    return order


def rates(matrices: Mapping[str, Matrix]) -> Grid:
    """The pictures in numbers."""
    rows = []
    for title, matrix in matrices.items():
        wrong = 1 - np.diag(matrix)
        shown = (wrong.mean(), wrong.min(), wrong.max())
        rows.append((title, *(f"{100 * value:.2f}" for value in shown)))
    heads = ("noise", "wrong labels, mean over classes (%)", "least", "most")
    return Grid("How many labels of a class are wrong.", heads, tuple(rows))


def embedded(outcome: Outcome) -> tuple[list[Embedded], tuple[str, ...]]:
    """The same training samples in the features of each row's model, by t-SNE."""
    experiment, seed = outcome.experiment, outcome.seeds[0]
    setting = next(iter(experiment.settings))
    panels = []
    classes: tuple[str, ...] = ()
    for row in experiment.rows.values():
        place = Place(row.key, setting, seed)
        dataset, scenario = outcome.workshop.scenario(outcome.configs[place])
        classes = dataset.classes
        step = max(1, len(scenario.index) // SAMPLES)
        chosen, given = scenario.index[::step][:SAMPLES], scenario.labels[::step][:SAMPLES]
        model = saved.load(outcome.workshop.model(outcome.cells[place].hash))
        with torch.no_grad():
            _, features = embed(
                model.networks[0].eval(), dataset.normalise(dataset.train.x[chosen])
            )
        points = tsne(features.numpy(), seed)
        true = dataset.train.y[chosen].numpy()
        panels.append(Embedded(row.title, points, given.numpy(), true))
    return panels, classes


def _scenario(outcome: Outcome, setting: str) -> tuple[Dataset, Scenario]:
    place = Place("", setting, outcome.seeds[0])
    config = outcome.experiment.config(place, outcome.workshop.changes)
    return outcome.workshop.scenario(config)
