"""Makes a data set of what a reader found, so that all sources keep the same promises.

Labels are numbers from 0, no class is empty, and a test part that the source does not bring is cut
off by the labels alone.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from flr.config import Data
from flr.core.errors import ConfigError, DataError
from flr.data import checks
from flr.data.checks import Array, Samples
from flr.data.dataset import Dataset, LabeledData, Normalization
from flr.data.on_disk import Inputs, Pictures
from flr.data.texts import Texts
from flr.data.train_test_split import balanced, stratified

_CHUNK = 4096  # samples turned into float64 at a time


def assemble(
    name: str,
    train: Samples,
    test: Samples | None,
    classes: tuple[str, ...] | None,
    *,
    augment: str = "none",
) -> Dataset:
    """Numbers the classes, splits if there is no test part, and measures the normalisation."""
    data, classes = _labeled(name, train, classes)
    data, sites = _with_sites(data, train)
    _check_classes(name, data.y, classes)
    if test is not None:
        held_out, _ = _labeled(f"{name} (test)", test, classes)
        if _kind(test.x) != _kind(train.x):
            raise DataError(
                f"{name}: expected test inputs like the training inputs ({_kind(train.x)}); "
                f"got {_kind(test.x)}. Prepare both in the same way."
            )
    else:
        rows, held = (torch.from_numpy(part) for part in stratified(data.y.numpy()))
        if len(held) == 0:
            raise DataError(
                f"{name}: expected a class with at least two samples, to test on one; got "
                f"{len(data)} samples of {len(classes)} classes. Add samples or a test part."
            )
        data, held_out = data[rows], data[held]
    return Dataset(
        name, data, held_out, classes, normalization_of(data.x), augment, site_names=sites
    )


def from_arrays(
    x: Array | Tensor,
    y: Array | Tensor,
    x_test: Array | Tensor | None = None,
    y_test: Array | Tensor | None = None,
    classes: tuple[str, ...] | None = None,
    *,
    tokens: bool = False,
) -> Dataset:
    """A data set from NumPy or torch arrays (copied); by default a fixed fifth is for testing.

    Args:
        x: Images as uint8 (n x height x width, x 3 if in colour), or features (n x d).
        y: Class numbers from 0 without gaps, or names.
        x_test: Inputs for testing; with `y_test`, or neither.
        y_test: Their labels.
        classes: Names of the class numbers.
        tokens: Whether `x` holds numbers of tokens (n x length), for a network with an embedding:
            then they stay whole numbers. Other whole numbers are standardised like all inputs.

    Example:
        >>> from sklearn.datasets import load_digits
        >>> from flr.plugin import from_arrays
        >>> dataset = from_arrays(*load_digits(return_X_y=True))
        >>> len(dataset.train), len(dataset.test), dataset.input_shape
        (1437, 360, (64,))
        >>> sentences = [[1, 7, 2], [3, 7, 4], [1, 5, 2], [3, 5, 4]]  # numbers of words
        >>> from_arrays(sentences, ["question", "answer"] * 2, tokens=True).input_shape
        (3,)
    """
    if (x_test is None) != (y_test is None):
        raise DataError(
            "Expected both x_test and y_test, or neither; got one of them. Pass the other too."
        )

    def samples(inputs: Any, labels: Any, suffix: str) -> Samples:
        read = checks.tokens if tokens else checks.inputs
        found = read(inputs, f"x{suffix}"), checks.labels(labels, f"y{suffix}")
        checks.same_length(*found, f"x{suffix}, y{suffix}")
        return Samples(*found, [])

    names = None if classes is None else checks.class_list(classes, "classes")
    test = None if x_test is None else samples(x_test, y_test, "_test")
    return assemble("arrays", samples(x, y, ""), test, names)


def read(settings: Data) -> Dataset:
    """What `[data]` names, as its publisher gives it; no backbone has seen it yet."""
    source, backbone = settings.source.build(), settings.backbone
    if backbone is not None and hasattr(source, "pictures"):
        # photographs of any size stay on disk until they are features, or are refused unread
        side = getattr(backbone.build(), "side", 0) or 1
        dataset: Dataset = source.pictures(side)
    else:
        dataset = source.load()
    return subset(dataset, settings.train, settings.test)


def subset(dataset: Dataset, train: int | None, test: int | None) -> Dataset:
    """Fewer samples, classes as equal as can be; None keeps all, and larger subsets only add."""

    def fewer(data: LabeledData, size: int | None, what: str, least: int) -> LabeledData:
        if size is None:
            return data
        if not least <= size <= len(data):
            raise ConfigError(
                f"Expected from {least:,} to {len(data):,} {what} samples, as the data set has; "
                f"got {size:,}. Change the number."
            )
        return data[torch.from_numpy(balanced(data.y.numpy(), size))]

    return replace(
        dataset,
        train=fewer(dataset.train, train, "training", len(dataset.classes)),
        test=fewer(dataset.test, test, "test", 1),
    )


def _labeled(
    name: str, samples: Samples, classes: tuple[str, ...] | None
) -> tuple[LabeledData, tuple[str, ...]]:
    if samples.y is None:
        raise DataError(f"{name}: expected labels; got inputs only. Add an array of labels (y).")
    known = classes or checks.classes_of(samples.y, name)
    y = checks.encode(samples.y, known, name)
    return LabeledData(samples.x, y, torch.arange(len(y))), known


def _with_sites(data: LabeledData, samples: Samples) -> tuple[LabeledData, tuple[str, ...]]:
    """With the number of each sample's site, and the names of these sites."""
    if samples.site is None:
        return data, ()
    names = tuple(checks.in_order(samples.site))
    return replace(data, site=checks.encode(samples.site, names, "site")), names


def _check_classes(name: str, y: Tensor, classes: tuple[str, ...]) -> None:
    if len(classes) < 2:
        raise DataError(
            f'{name}: expected at least two classes; got only "{classes[0]}". '
            "Add samples of another class, or check the labels."
        )
    counts = torch.bincount(y, minlength=len(classes))
    if (counts == 0).any():
        raise DataError(
            f"{name}: expected training samples of every class; "
            f'"{classes[int(counts.argmin())]}" has none. Add some, or take it off the class list.'
        )


def normalization_of(x: Inputs) -> Normalization:
    """Mean and deviation of each channel or feature; what does not vary keeps its scale.

    Texts and pictures on disk have none: it is their features that are measured. Nor have tokens.
    """
    if isinstance(x, Texts | Pictures) or (isinstance(x, Tensor) and x.dtype == torch.int64):
        return Normalization((), ())
    axes = [axis for axis in range(len(x.shape)) if axis != 1]
    n = math.prod(x.shape) / x.shape[1]
    starts = range(0, len(x), _CHUNK)
    zero = torch.zeros(x.shape[1], dtype=torch.float64)
    mean = sum((x[i : i + _CHUNK].double().sum(axes) for i in starts), zero) / n
    centre = mean.view(1, -1, *[1] * (len(x.shape) - 2))
    parts = ((x[i : i + _CHUNK].double() - centre).square().sum(axes) for i in starts)
    square = sum(parts, zero)
    std = (square / n).sqrt()
    std[std <= mean.abs() * 1e-7 + 1e-30] = 1.0  # below what float32 can tell apart
    return Normalization(tuple(mean.tolist()), tuple(std.tolist()))


def _kind(x: Inputs) -> str:
    kind = str(x.dtype).removeprefix("torch.") if isinstance(x, Tensor) else type(x).__name__
    return f"{checks.times(x.shape[1:])}, {kind}".removeprefix(", ").lower()
