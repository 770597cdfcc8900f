"""Wrong labels that people gave: CIFAR-N, several people's ratings, or a file of the user."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np

from flr.core.errors import ConfigError, DataError
from flr.core.registry import register
from flr.data.dataset import Ragged
from flr.data.readers import given_labels, human_labels
from flr.data.readers.human_labels import HumanLabels, Which
from flr.data.train_test_split import Indices
from flr.scenario.noises.common import Noise, NoiseContext, Selected


@register(
    "human", kind="noise", title="Human labels", paper="Wei et al., ICLR 2022 (CIFAR-N)", year=2022
)
@dataclass(frozen=True)
class Human(Noise):
    """Every sample gets the label that a person gave it.

    `labels` of CIFAR-10N: "worst" (40 % wrong), "aggregate" (9 %), "random1", "random2", "random3"
    (17 to 18 %); of CIFAR-100N: "noisy" (40 %). `path` is the label file (.pt or .npz) or its
    folder; $FLR_DATA if left out. A site's nominal rate is the share of wrong labels among all
    samples of the data set. The files are for non-commercial use (CC BY-NC 4.0).

    For any other data set, `path` is a file with one given label for every sample, in the order of
    the data set's own file: .npy; .npz with an array `given`; .csv with a column `given`. An array
    or column `true` beside it has to equal the true labels.

    A data set of which several people rated each sample ("vader") needs no file: every sample gets
    the label of one of its raters, drawn by the scenario's seed.
    """

    labels: Which = "worst"
    path: Path | None = None

    def noisy(self, sites: int, rng: np.random.Generator) -> Indices:
        return np.arange(sites)

    def rate(self, site: int, context: NoiseContext, rng: np.random.Generator) -> float:
        """The same for all sites: what they really have differs by chance.

        Raters disagree more about some sites than about others: theirs is what a site can expect.
        """
        if self._one_rater(context):
            return expected_rate(context, context.sites[site])
        return float((self.given(context) != context.labels).mean())

    def relabel(self, selected: Selected, context: NoiseContext) -> Indices:
        if self._one_rater(context):
            return one_rater(selected, context)
        return self.given(context)[selected.sample]

    def given(self, context: NoiseContext) -> Indices:
        """The file's labels for all samples of the data set, in its numbers of classes."""
        wanted = human_labels.publication(self.labels).classes
        if context.numbers is None:
            raise ConfigError(
                f'[noise] labels = "{self.labels}": expected a data set whose samples have '
                "published numbers, to look their labels up; this one has none. Use [data] name = "
                f'"cifar{wanted}", or another [noise] kind.'
            )
        if self.path is not None and given_labels.is_such_a_file(self.path):
            return given_labels.load(self.path, context.numbers, context.labels, context.classes)
        found = human_labels.load(self.path, self.labels)
        classes = match(found, context.numbers, context.labels, len(context.classes))
        labels = found.given[context.numbers]
        outside = int((~np.isin(labels, classes)).sum())
        if outside:
            raise ConfigError(
                f'[noise] labels = "{self.labels}": expected a data set with all {wanted} classes; '
                f"people gave {outside:,} of {len(labels):,} samples a label outside of its "
                f"{len(classes)}. Use all classes, or another [noise] kind."
            )
        return np.searchsorted(classes, labels)

    def _one_rater(self, context: NoiseContext) -> bool:
        """Whether there are raters to draw from; a file that is given goes first."""
        return self.path is None and context.raters is not None and context.numbers is not None


def one_rater(selected: Selected, context: NoiseContext) -> Indices:
    """The class that one of each sample's raters chose; all of them are equally likely."""
    raters, numbers = _raters(context, selected.sample)
    which = np.floor(selected.draw * raters.sizes.numpy()[numbers]).astype(np.int64)
    return np.asarray(raters.flat.numpy()[raters.offset.numpy()[numbers] + which], dtype=np.int64)


def expected_rate(context: NoiseContext, samples: Indices) -> float:
    """The share of wrong labels that one rater would give, in the mean over these samples."""
    raters, numbers = _raters(context, samples)
    wrong = [
        (raters[number].numpy() != label).mean()
        for number, label in zip(numbers.tolist(), context.labels[samples], strict=True)
    ]
    return float(np.mean(wrong))


def _raters(context: NoiseContext, samples: Indices) -> tuple[Ragged, Indices]:
    return cast(Ragged, context.raters), cast(Indices, context.numbers)[samples]


def match(found: HumanLabels, numbers: Indices, labels: Indices, classes: int) -> Indices:
    """The file's number of each class; refuses a file of other samples, or in another order.

    A data set that keeps some classes only has numbered them anew, in their order.
    """
    if numbers.max() >= len(found.clean):
        raise _misfit(found, f"has {len(found.clean):,} labels, too few")
    clean = found.clean[numbers]
    present = np.unique(clean)
    if len(present) != classes:
        raise _misfit(found, f"has {len(present)} classes there, the data set {classes}")
    wrong = int((present[labels] != clean).sum())
    if wrong:
        raise _misfit(found, f"differs for {wrong:,} of {len(clean):,} samples")
    return present


def _misfit(found: HumanLabels, reason: str) -> DataError:
    return DataError(
        f"{found.file}: expected {human_labels.CLEAN} to equal the true labels of the data set, "
        f"sample by sample; it {reason}. The file is in another order (TensorFlow's differs from "
        "the publisher's) or belongs to another data set. Get the publisher's file, and choose "
        '[noise] labels that fit: "noisy" for CIFAR-100, the others for CIFAR-10.'
    )
