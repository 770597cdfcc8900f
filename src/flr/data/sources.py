"""Where data sets come from: bundled, files and folders of the user, or arrays in memory.

Sources read; data/checks.py looks at what came, and data/assemble.py makes the data set of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from flr.data import checks, files, images
from flr.data.assemble import assemble
from flr.data.checks import Array, Samples
from flr.data.dataset import Dataset, LabeledData, Normalisation
from flr.data.split import balanced, stratified
from flr.errors import ConfigError, DataError
from flr.registry import register


@register("digits", kind="dataset", title="Handwritten digits")
@dataclass(frozen=True)
class Digits:
    """1,797 grey images of 8 x 8 pixels, bundled with scikit-learn: 1,437 to train, 360 to test.

    The split is stratified and always the same.
    """

    def load(self) -> Dataset:
        """Pixels are 0 ... 16, as published."""
        from sklearn.datasets import load_digits  # takes seconds, and few runs need it

        bunch = load_digits()
        x = torch.from_numpy(bunch.images.astype(np.uint8))[:, None]
        y = torch.from_numpy(bunch.target.astype(np.int64))
        data = LabeledData(x, y)
        train, test = (torch.from_numpy(part) for part in stratified(y.numpy()))
        classes = tuple(str(digit) for digit in range(10))
        normalise = Normalisation((0.0,), (16.0,))
        return Dataset("digits", data[train], data[test], classes, normalise, noise_map="digits")


@register("npz", kind="dataset", title="Arrays in an npz file")
@dataclass(frozen=True)
class Npz:
    """Your arrays: x_train, y_train, x_test, y_test, or x and y (a fixed fifth is for testing).

    Images are uint8 (n x height x width, with channels last or first), features are float (n x d).
    Labels are class numbers or names; an array `classes` may name the numbers. Inputs are
    normalised with the training part's mean and standard deviation.
    """

    path: Path

    def load(self) -> Dataset:
        """Reads the whole file into memory."""
        arrays = files.read_npz(self.path)
        classes = _npz_classes(self.path, arrays)
        if "x_train" not in arrays:
            return assemble(self.path.stem, files.npz_samples(self.path, arrays), None, classes)
        train, test = (files.npz_samples(self.path, arrays, part) for part in ("_train", "_test"))
        return assemble(self.path.stem, train, test, classes)


@register("folder", kind="dataset", title="Images in folders")
@dataclass(frozen=True)
class Folder:
    """Your images: one sub-folder for each class, or train/<class> and test/<class>.

    They become RGB. Unless all have one size, `size` says to how many pixels each side is scaled.
    Training images are shifted and mirrored at random.
    """

    path: Path
    size: Annotated[int, Field(ge=1)] | None = None

    def load(self) -> Dataset:
        """Classes are the folders' names, sorted."""
        parts = images.parts(self.path)
        train_path, test_path = parts or (self.path, None)
        train = images.read_classes(train_path, self.size)
        test = images.read_classes(test_path, self.size) if test_path else None
        return assemble(self.path.resolve().name, train, test, None, augment="crop-flip")


@register("csv", kind="dataset", title="Table in a CSV file")
@dataclass(frozen=True)
class Csv:
    """Your table: a header, numeric feature columns, and one column (`label`) with the classes.

    A fixed, stratified fifth of the rows is the test set.
    """

    path: Path
    label: str = "label"

    def load(self) -> Dataset:
        """Classes are the label column's values, sorted."""
        samples = files.read_csv(self.path, self.label, label_required=True)
        return assemble(self.path.stem, samples, None, None)


def from_arrays(
    x: Array | Tensor,
    y: Array | Tensor,
    x_test: Array | Tensor | None = None,
    y_test: Array | Tensor | None = None,
    classes: tuple[str, ...] | None = None,
) -> Dataset:
    """A data set from NumPy or torch arrays (copied); by default a fixed fifth is for testing."""
    if (x_test is None) != (y_test is None):
        raise DataError(
            "Expected both x_test and y_test, or neither; got one of them. Pass the other too."
        )
    names = None if classes is None else checks.class_list(classes, "classes")
    test = None if x_test is None else _samples(x_test, y_test, "x_test", "y_test")
    return assemble("arrays", _samples(x, y, "x", "y"), test, names)


def subset(dataset: Dataset, train: int | None, test: int | None) -> Dataset:
    """Fewer samples, classes as equal as can be; None keeps all, and larger subsets only add."""
    return replace(
        dataset,
        train=_fewer(dataset.train, train, "training", len(dataset.classes)),
        test=_fewer(dataset.test, test, "test", 1),
    )


def read(
    path: Path,
    classes: tuple[str, ...] | None,
    label: str = "label",
    size: int | None = None,
    *,
    training: bool = False,
) -> tuple[Tensor, Tensor | None, tuple[str, ...] | None, list[str]]:
    """Inputs (in the publisher's units), labels, classes and row names of what is to be predicted.

    Of a source with a training and a test part this is the test part, or the one for `training`.
    Labels are None if the source has none; else they are positions in `classes`, or, if that is
    None, in the classes found. Rows are named by their file, by their line (CSV) or by their
    position from 0 (npz).
    """
    samples, own = _read_any(path, label, size, training)
    if samples.y is None:
        return samples.x, None, classes or own, samples.names
    y, where = samples.y, str(path)
    if own is not None and y.dtype.kind == "i":  # numbers into the file's own list: go by name
        y = np.array(own)[checks.encode(y, own, where).numpy()]
    if classes is not None and own is None and y.dtype.kind == "i" and _are_other_numbers(classes):
        y = y.astype(str)  # classes called 1, 2, 3: a label 1 is the first one, in every format
    if classes is None and y.dtype.kind == "i":
        return samples.x, torch.from_numpy(y), None, samples.names
    known = classes or own or checks.classes_of(y, where)
    return samples.x, checks.encode(y, known, where), known, samples.names


def _are_other_numbers(classes: tuple[str, ...]) -> bool:
    """Whether all names are numbers, and some not their own positions."""
    positions = tuple(str(number) for number in range(len(classes)))
    return all(name.isdecimal() for name in classes) and classes != positions


def _read_any(
    path: Path, label: str, size: int | None, training: bool
) -> tuple[Samples, tuple[str, ...] | None]:
    if path.is_dir():
        parts = images.parts(path)
        folder = parts[0 if training else 1] if parts else path
        found = images.read_classes if images.subfolders(folder) else images.read_flat
        return found(folder, size), None
    suffix = path.suffix.lower()
    if suffix == ".csv":
        return files.read_csv(path, label, label_required=False), None
    if suffix != ".npz":
        files.require(path, "a data file")
        raise DataError(
            f'Expected a folder of images, a .npz or a .csv file; got "{path.name}". '
            "Convert it to one of these."
        )
    arrays = files.read_npz(path)
    wanted = "_train" if training else "_test"
    part = wanted if f"x{wanted}" in arrays else ""
    return files.npz_samples(path, arrays, part), _npz_classes(path, arrays)


def _npz_classes(path: Path, arrays: dict[str, Array]) -> tuple[str, ...] | None:
    if "classes" not in arrays:
        return None
    return checks.class_list(arrays["classes"], f'{path}: "classes"')


def _samples(x: Any, y: Any, x_name: str, y_name: str) -> Samples:
    inputs, labels = checks.inputs(x, x_name), checks.labels(y, y_name)
    checks.same_length(inputs, labels, f"{x_name}, {y_name}")
    return Samples(inputs, labels, [])


def _fewer(data: LabeledData, size: int | None, what: str, least: int) -> LabeledData:
    if size is None:
        return data
    if not least <= size <= len(data):
        raise ConfigError(
            f"Expected from {least:,} to {len(data):,} {what} samples, as the data set has; "
            f"got {size:,}. Change the number."
        )
    return data[torch.from_numpy(balanced(data.y.numpy(), size))]
