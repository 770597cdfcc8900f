"""Labels that somebody gave, in a file of the user: one for every sample of a data set.

They are in the order of the data set's own file, which is that of `LabeledData.number`: the rows
of a table, the lines of texts, the first axis of an array, the images sorted by folder and name.
Where the data set brings a training part of its own, it is that part's order.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np

from flr.core.errors import DataError
from flr.data import checks
from flr.data.checks import Array
from flr.data.paths import BROKEN, require_file
from flr.data.readers import human_labels, tables
from flr.data.train_test_split import Indices

GIVEN, TRUE = "given", "true"


def is_such_a_file(path: Path) -> bool:
    """By its suffix; a folder, or an npz file with the arrays of CIFAR-N, is none."""
    suffix = path.suffix.lower()
    if suffix == ".npz" and path.is_file():
        return human_labels.CLEAN not in _names(path)
    return suffix in (".csv", ".npy") and not path.is_dir()


def load(path: Path, numbers: Indices, labels: Indices, classes: tuple[str, ...]) -> Indices:
    """The given labels of the samples with these numbers and true labels, as class numbers."""
    require_file(path, "a file of given labels")
    state = path.stat()
    given, true = _load(path, classes, state.st_mtime_ns, state.st_size)
    if numbers.max() >= len(given):
        raise DataError(
            f"{path}: expected one label for every sample, in the order of the data set's file; "
            f"got {len(given):,} labels, and there is a sample number {numbers.max():,} (from 0). "
            "Add those of the missing samples: the rows held out for testing count, too."
        )
    if true is not None and (wrong := int((true[numbers] != labels).sum())):
        raise DataError(
            f'{path}: expected "{TRUE}" to equal the true labels of the data set, sample by '
            f"sample; it differs for {wrong:,} of {len(labels):,}. The file is in another order, "
            "or belongs to another data set: write it again in the order of the data set's file."
        )
    return given[numbers]


@lru_cache(maxsize=4)
def _load(
    path: Path, classes: tuple[str, ...], _changed: int, _size: int
) -> tuple[Indices, Indices | None]:
    """Remembers what it read while the file stays the same: noise asks once for every site."""
    found = _from_csv(path) if path.suffix.lower() == ".csv" else _from_numpy(path)
    given = _encode(path, GIVEN, found[GIVEN], classes)
    if TRUE not in found:
        return given, None
    true = _encode(path, TRUE, found[TRUE], classes)
    if len(true) != len(given):
        raise DataError(
            f"{path}: expected as many labels as samples; got {len(given):,} given labels beside "
            f"{len(true):,} true ones. Save them from the same rows."
        )
    return given, true


def _encode(path: Path, key: str, values: Array, classes: tuple[str, ...]) -> Indices:
    """Class names or, where no class is called so, class numbers."""
    where = f'{path}: "{key}"'
    found = checks.labels(values, where)
    numbered = classes == tuple(map(str, range(len(classes))))
    if found.dtype.kind != "U" and not numbered and all(name.isdecimal() for name in classes):
        found = found.astype(str)  # classes called 1, 2, 3: a label 1 is the first one
    elif not set(found) & set(classes) and all(str(name).isdecimal() for name in found):
        found = found.astype(np.int64)
    encoded: Indices = checks.encode(found, classes, where).numpy()
    encoded.flags.writeable = False  # shared by all callers
    return encoded


def _from_csv(path: Path) -> dict[str, Array]:
    """The columns of these names; a file with one column only may call it anything."""
    header, rows = tables.read_rows(path)
    tables.check_widths(path, header, rows)
    at = {name: header.index(name) for name in (GIVEN, TRUE) if name in header}
    if GIVEN not in at:
        if len(header) > 1:
            raise _no_given(path, header)
        at = {GIVEN: 0}
    return {name: tables.column_of(path, header[i], i, rows) for name, i in at.items()}


def _from_numpy(path: Path) -> dict[str, Array]:
    try:
        with path.open("rb") as raw:
            loaded = np.load(raw, allow_pickle=False)
            if isinstance(loaded, np.ndarray):
                return {GIVEN: loaded}
            found = {name: loaded[name] for name in (GIVEN, TRUE) if name in loaded}
            names = list(loaded)
    except BROKEN as error:
        raise DataError(
            f"{path}: expected plain arrays of labels; it cannot be read ({error}). Write it with "
            f"numpy.save, or with numpy.savez(path, {GIVEN}=...), without objects."
        ) from error
    if GIVEN not in found:
        raise _no_given(path, names)
    return found


def _names(path: Path) -> list[str]:
    """Of the arrays in an npz file; none, if it cannot be read, of which its reader will tell."""
    try:
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as archive:
            return list(archive)
    except BROKEN:
        return []


def _no_given(path: Path, names: list[str]) -> DataError:
    return DataError(
        f'{path}: expected labels under the name "{GIVEN}"; got {", ".join(names[:20]) or "none"}. '
        "Rename what has the labels as people gave them."
    )
