"""Files of the user: arrays in an npz file, images in folders, a table in a CSV file.

Readers read; data/checks.py looks at what came, and data/build.py makes the data set of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, cast

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from flr.core.errors import DataError
from flr.core.registry import register
from flr.data import checks
from flr.data.build import assemble
from flr.data.checks import Samples
from flr.data.dataset import Dataset
from flr.data.on_disk import Inputs
from flr.data.paths import require_file
from flr.data.readers import images, sheets, tables, text_files
from flr.data.readers.columns import encoded, needs_encoding
from flr.data.train_test_split import stratified


@register("npz", kind="dataset", title="Arrays in an npz file")
@dataclass(frozen=True)
class Npz:
    """Your arrays: x_train, y_train, x_test, y_test, or x and y (a fixed fifth is for testing).

    Images are uint8 (n x height x width, with channels last or first), features are float (n x d).
    Labels are class numbers or names; an array `classes` may name the numbers. Inputs are
    normalised with the training part's mean and standard deviation. An array `site_train` (or
    `site`) may say which site holds each sample, for [partition] kind = "column".
    """

    path: Path

    def load(self) -> Dataset:
        """Reads the whole file into memory."""
        arrays = tables.read_npz(self.path)
        classes = tables.npz_classes(self.path, arrays)
        if "x_train" not in arrays:
            return assemble(self.path.stem, tables.npz_samples(self.path, arrays), None, classes)
        train, test = (tables.npz_samples(self.path, arrays, part) for part in ("_train", "_test"))
        return assemble(self.path.stem, train, test, classes)

    def names(self) -> tuple[list[str], list[str]]:
        """The positions of the rows; those of an own part for testing as test/0, test/1, ..."""
        arrays = tables.read_npz(self.path)
        if "x_train" not in arrays:
            rows = [str(row) for row in range(len(arrays["x"]))]
            return rows, rows
        train, test = (range(len(arrays[f"x_{part}"])) for part in ("train", "test"))
        return [str(row) for row in train], [f"test/{row}" for row in test]


@register("folder", kind="dataset", title="Images in folders")
@dataclass(frozen=True)
class Folder:
    """Your images: one sub-folder for each class, or train/<class> and test/<class>.

    They become RGB. Unless all have one size, `size` says to how many pixels each side is scaled.
    Training images are shifted and mirrored at random. With `sites = "folder"` there is a folder
    for each site around those for the classes, <site>/<class>, for [partition] kind = "column".
    """

    path: Path
    size: Annotated[int, Field(ge=1)] | None = None
    sites: Literal["folder"] | None = None

    def load(self) -> Dataset:
        """Classes are the folders' names, sorted."""
        return self._read(images.at_once(self.size))

    def names(self) -> tuple[list[str], list[str]]:
        """The images' paths below the folder, for training and for testing; none is decoded."""
        parts = images.parts(self.path)
        if parts is None:
            found = self._find(self.path, images.one_by_one(1)).names
            return found, found
        listed = [self._find(part, images.one_by_one(1)).names for part in parts]
        train, test = ([f"{p.name}/{n}" for n in own] for p, own in zip(parts, listed, strict=True))
        return train, test

    @property
    def _find(self) -> Callable[[Path, images.Read], Samples]:
        return images.read_classes if self.sites is None else images.read_sites

    def pictures(self, side: int) -> Dataset:
        """The same for a backbone: images of any size, which stay on disk until it sees them."""
        return self._read(images.one_by_one(side))

    def _read(self, read: images.Read) -> Dataset:
        parts = images.parts(self.path)
        train_path, test_path = parts or (self.path, None)
        train = self._find(train_path, read)
        test = self._find(test_path, read) if test_path else None
        return assemble(self.path.resolve().name, train, test, None, augment="crop-flip")


@register("csv", kind="dataset", title="Table in a CSV file")
@dataclass(frozen=True)
class Csv:
    """Your table: a header, feature columns, and one column (`label`) with the classes.

    A fixed, stratified fifth of the rows is the test set. A column without a single number becomes
    one feature for each text that is in it; gaps (empty, NA or NaN) in a column of numbers become
    its median, and a further feature says where they were. Texts and medians are those of the
    training rows of all sites together, as mean and deviation are: real sites would have to tell
    each other these. `site` names the column of the sites, for [partition] kind = "column".
    """

    path: Path
    label: str = "label"
    site: str | None = None

    def load(self) -> Dataset:
        """Classes are the label column's values, sorted."""
        table = tables.read_table(self.path, self.label, self.site)
        samples = self._encoded(table) if needs_encoding(table) else tables.numeric(table)
        return assemble(self.path.stem, samples, None, None)

    def names(self) -> tuple[list[str], list[str]]:
        """The lines of the rows, which are for training and for testing."""
        lines = [str(line) for line in tables.read_rows(self.path)[1]]
        return lines, lines

    def _encoded(self, table: tables.Table) -> Samples:
        """By the rows that `assemble` will leave for training."""
        labels, where = cast(checks.Array, table.labels), str(self.path)
        y = checks.encode(labels, checks.classes_of(labels, where), where)
        return encoded(table, stratified(y.numpy())[0])


def read_samples(
    path: Path,
    classes: tuple[str, ...] | None,
    label: str = "label",
    size: int | None = None,
    *,
    training: bool = False,
    side: int = 0,
    texts: bool = False,
) -> tuple[Inputs, Tensor | None, tuple[str, ...] | None, list[str]]:
    """Inputs (in the publisher's units), labels, classes and row names of what is to be predicted.

    Of a source with a training and a test part this is the test part, or the one for `training`.
    With `side`, images stay on disk, and are squares of so many pixels when they are looked at.
    With `texts`, a .csv or .jsonl file has a column (or key) "text" for a backbone of texts.
    Labels are None if the source has none; else they are positions in `classes`, or, if that is
    None, in the classes found. Rows are named by their file, by their line (CSV) or by their
    position from 0 (npz).
    """
    read = images.one_by_one(side) if side else images.at_once(size)
    if texts and path.suffix.lower() in text_files.SUFFIXES:
        samples, own = text_files.read_texts(path, "text", label, None, label_required=False), None
    else:
        samples, own = _read_any(path, label, read, training)
    x = samples.x
    if samples.y is None:
        return x, None, classes or own, samples.names
    y, where = samples.y, str(path)
    if y.dtype.kind == "i":
        if own is not None:  # numbers into the file's own list: go by name
            y = np.array(own)[checks.encode(y, own, where).numpy()]
        elif classes is None:
            return x, torch.from_numpy(y), None, samples.names
        elif all(name.isdecimal() for name in classes) and classes != tuple(
            map(str, range(len(classes)))
        ):
            y = y.astype(str)  # classes called 1, 2, 3: a label 1 is the first one, in every format
    known = classes or own or checks.classes_of(y, where)
    return x, checks.encode(y, known, where), known, samples.names


def _read_any(
    path: Path, label: str, read: images.Read, training: bool
) -> tuple[Samples, tuple[str, ...] | None]:
    if path.is_dir():
        parts = images.parts(path)
        folder = parts[0 if training else 1] if parts else path
        found = images.read_classes if images.subfolders(folder) else images.read_flat
        return found(folder, read), None
    suffix = path.suffix.lower()
    if suffix in sheets.SUFFIXES:
        return tables.read_csv(path, label, label_required=False), None
    if suffix != ".npz":
        require_file(path, "a data file")
        raise DataError(
            "Expected a folder of images, a .npz file or a table (.csv, .tsv, .xlsx); got "
            f'"{path.name}". Convert it to one of these.'
        )
    arrays = tables.read_npz(path)
    wanted = "_train" if training else "_test"
    part = wanted if f"x{wanted}" in arrays else ""
    return tables.npz_samples(path, arrays, part), tables.npz_classes(path, arrays)
