"""Which sample has which label: by name, and with a word for everything that does not fit."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from flr.audit.labels_file import read_labels, shown, some
from flr.errors import DataError

FEW = 0.05  # of the labels may be unknown to the model: slips; more of them are other classes

_LISTED = 10


@dataclass(frozen=True, eq=False)
class Chosen:
    """The samples that can be audited, and those that cannot, with the reason."""

    rows: Tensor  # int64: positions in the data
    given: Tensor  # int64: positions in the model's classes
    notes: tuple[str, ...]
    left_out: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class ByName:
    """What a labels.csv says of the samples of a data set."""

    labels: list[str | None]  # of each sample; None: it has none
    absent: list[str]  # names that are not in the data
    reordered: bool  # the file has the samples in another order


def by_name(path: Path, names: Sequence[str], data: Path) -> ByName:
    """Looks every sample up in a labels.csv, whose rows may be in any order."""
    table = read_labels(path)
    cells = dict(zip(table.column("name"), table.column("label"), strict=True))
    here = set(names)
    if not cells.keys() & here:
        raise DataError(
            f"Expected {path} to name the samples of {data}; none of its {len(cells):,} names is "
            f"there. It has {some(list(cells), 3)}; the data has {some(names, 3)}. Write the names "
            "as the data has them: a file's path below the folder, the line of a CSV row, or the "
            "position in an npz file, from 0."
        )
    common = [name for name in names if name in cells]
    return ByName(
        labels=[cells[name] if cells.get(name, "").strip() else None for name in names],
        absent=[name for name in cells if name not in here],
        reordered=common != [name for name in cells if name in here],
    )


def choose(
    names: Sequence[str],
    labels: Sequence[str | None],
    absent: Sequence[str],
    classes: tuple[str, ...],
    where: Path,
) -> Chosen:
    """Takes what has a label that the model knows; `absent` are names that have no sample."""
    position = {name: number for number, name in enumerate(classes)}
    rows, given, unlabelled = [], [], []
    unknown: list[tuple[str, str]] = []
    for row, (name, label) in enumerate(zip(names, labels, strict=True)):
        if label is None:
            unlabelled.append(name)
            continue
        number = position.get(label, position.get(label.strip()))
        if number is None:
            unknown.append((name, label))
            continue
        rows.append(row)
        given.append(number)
    _refuse_other_classes(unknown, len(rows), classes, where)
    left_out = [(name, f"no label in {where.name}") for name in unlabelled]
    left_out += [
        (name, f"label {shown(label)} is no class of the model") for name, label in unknown
    ]
    left_out += [(name, "named in the labels, not in the data") for name in absent]
    notes = _notes(unlabelled, unknown, absent, where)
    return Chosen(torch.tensor(rows), torch.tensor(given), notes, tuple(left_out))


def _refuse_other_classes(
    unknown: Sequence[tuple[str, str]], known: int, classes: tuple[str, ...], where: Path
) -> None:
    if known and len(unknown) <= FEW * (known + len(unknown)):
        return
    if not unknown:
        raise DataError(
            f"{where}: expected at least one sample with a label; got none. Fill in the labels."
        )
    counts = Counter(label for _, label in unknown).most_common()
    listed = [
        f"{shown(label)} ({count:,}{_near(label, classes)})" for label, count in counts[:_LISTED]
    ]
    more = f" and {len(counts) - _LISTED:,} more" if len(counts) > _LISTED else ""
    raise DataError(
        f"{where}: expected labels that the model knows ({len(classes):,} classes: "
        f"{some(classes)}); {len(unknown):,} of {known + len(unknown):,} are others: "
        f"{', '.join(listed)}{more}. Use the model that was trained with these classes, "
        "or correct the labels."
    )


def _near(label: str, classes: tuple[str, ...]) -> str:
    near = difflib.get_close_matches(label, classes, n=1, cutoff=0.7)
    return f"; did you mean {shown(near[0])}?" if near else ""


def _notes(
    unlabelled: Sequence[str],
    unknown: Sequence[tuple[str, str]],
    absent: Sequence[str],
    where: Path,
) -> tuple[str, ...]:
    """Sentences for the page and the terminal; unchecked.csv has every name."""
    found = []
    if unlabelled:
        found.append(
            f"Samples without a label in {where.name}: {len(unlabelled):,} ({some(unlabelled, 3)})."
        )
    if unknown:
        labels = [label for label, _ in Counter(label for _, label in unknown).most_common()]
        found.append(
            f"Labels that are no class of the model, so look at them yourself: {len(unknown):,} "
            f"({some(labels, 3)})."
        )
    if absent:
        found.append(
            f"Names in {where.name} that are not in the data: {len(absent):,} ({some(absent, 3)})."
        )
    return tuple(found)
