"""Makes a data set of what a reader found, so that all sources keep the same promises.

Labels are numbers from 0, no class is empty, and a test part that the source does not bring is cut
off by the labels alone.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from flr.data import checks
from flr.data.checks import Samples
from flr.data.dataset import Dataset, LabeledData, Normalisation
from flr.data.split import stratified
from flr.errors import DataError

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
    _check_classes(name, data.y, classes)
    if test is not None:
        held_out, _ = _labeled(f"{name} (test)", test, classes)
        if test.x.shape[1:] != train.x.shape[1:] or test.x.dtype != train.x.dtype:
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
    inputs = cast(Tensor, data.x)  # readers of samples bring them into memory
    return Dataset(name, data, held_out, classes, _measure(inputs), augment)


def _labeled(
    name: str, samples: Samples, classes: tuple[str, ...] | None
) -> tuple[LabeledData, tuple[str, ...]]:
    if samples.y is None:
        raise DataError(f"{name}: expected labels; got inputs only. Add an array of labels (y).")
    known = classes or checks.classes_of(samples.y, name)
    return LabeledData(samples.x, checks.encode(samples.y, known, name)), known


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


def _measure(x: Tensor) -> Normalisation:
    """Mean and deviation of each channel or feature; what does not vary keeps its scale."""
    axes = [axis for axis in range(x.dim()) if axis != 1]
    n = x.numel() / x.shape[1]
    chunks = [x[i : i + _CHUNK] for i in range(0, len(x), _CHUNK)]
    zero = torch.zeros(x.shape[1], dtype=torch.float64)
    mean = sum((chunk.double().sum(axes) for chunk in chunks), zero) / n
    centre = mean.view(1, -1, *[1] * (x.dim() - 2))
    square = sum(((chunk.double() - centre).square().sum(axes) for chunk in chunks), zero)
    std = (square / n).sqrt()
    std[std <= mean.abs() * 1e-7 + 1e-30] = 1.0  # below what float32 can tell apart
    return Normalisation(tuple(mean.tolist()), tuple(std.tolist()))


def _kind(x: Tensor) -> str:
    shape = " x ".join(str(n) for n in x.shape[1:])
    return f"{shape}, {str(x.dtype).removeprefix('torch.')}"
