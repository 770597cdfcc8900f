"""Which sample has which label: by name, and with a word for everything that does not fit."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from flr.audit.labels_file import LabelTable, shown, some
from flr.audit.pairing import pair
from flr.core.errors import DataError
from flr.data.checks import in_order

FEW = 0.05  # of the labels may be unknown to the model: slips; more of them are other classes

_LISTED = 10
_REPEATED = 0.5  # of the labels, at most, are classes of their own: more are names or numbers


@dataclass(frozen=True, eq=False)
class Labelled:
    """What a table or the data say of every sample; None: no label."""

    labels: list[str | None]
    where: Path
    absent: tuple[tuple[str, str], ...] = ()  # names that are no sample, with the reason
    notes: tuple[str, ...] = ()


_UNNAMED = ". If a column of the table has the names, say which one with --name COLUMN"


@dataclass(frozen=True, eq=False)
class Chosen:
    """The samples that can be audited, and those that cannot, with the reason."""

    rows: Tensor  # int64: positions in the data
    given: Tensor  # int64: positions in the classes
    classes: tuple[str, ...]
    notes: tuple[str, ...]  # sentences on what is left out
    left_out: tuple[tuple[str, str], ...]  # every name, with the reason


def by_name(table: LabelTable, names: Sequence[str], data: Path) -> Labelled:
    """Looks every sample up in a table of labels, whose rows may be in any order."""
    path, pairing = table.sheet.path, pair(table.names, names)
    if all(row is None for row in pairing.rows):
        raise DataError(
            f"Expected {path} to name the samples of {data}; none of its {len(table.names):,} "
            f"names is there. It has {some(table.names, 3)}; the data has {some(names, 3)}. Write "
            "the names as the data has them: a file's path below the folder, the line of a row in "
            f"a table, or the position in an npz file, from 0{'' if table.called else _UNNAMED}."
        )
    labels: list[str | None] = [None] * len(names)
    absent = []
    for i, (row, label) in enumerate(zip(pairing.rows, table.labels, strict=True)):
        if row is None:
            reason = pairing.unsure.get(i, "named in the labels, not in the data")
            absent.append((table.names[i], reason))
        else:
            labels[row] = label if label.strip() else None
    return Labelled(labels, path, tuple(absent), tuple(_about(pairing.otherwise, path.name)))


def _about(otherwise: int, file: str) -> list[str]:
    if not otherwise:
        return []
    return [
        f"Whether names that are written otherwise mean the same samples: {otherwise:,} names in "
        f"{file} have other folders, slashes, letters or no extension, and fit one sample only."
    ]


def choose(
    names: Sequence[str],
    labelled: Labelled,
    classes: tuple[str, ...] | None,
    unreadable: dict[int, str],
) -> Chosen:
    """Takes what can be read and has a label of the model's classes; without a model, any label.

    `unreadable` says of some samples, by position, why they cannot be looked at.
    """
    where = labelled.where.name
    known = _classes_of(labelled) if classes is None else classes
    position = {name: number for number, name in enumerate(known)}
    rows, given, unlabelled = [], [], []
    unknown: list[tuple[str, str]] = []
    for row, (name, label) in enumerate(zip(names, labelled.labels, strict=True)):
        number = None if label is None else position.get(label, position.get(label.strip()))
        if row in unreadable:
            continue
        if label is None:
            unlabelled.append(name)
        elif number is None:
            unknown.append((name, label))
        else:
            rows.append(row)
            given.append(number)
    counts = Counter(label for _, label in unknown).most_common()
    if not rows or len(unknown) > FEW * (len(rows) + len(unknown)):
        raise _other_classes(counts, len(rows), known, labelled.where)
    no_class = [(name, f"label {shown(label)} is no class of the model") for name, label in unknown]
    bad = [(names[row], reason) for row, reason in unreadable.items()]
    parts = (
        ("Samples that cannot be read", [name for name, _ in bad], bad),
        (
            f"Samples without a label in {where}",
            unlabelled,
            [(name, f"no label in {where}") for name in unlabelled],
        ),
        (
            "Labels that are no class of the model, so look at them yourself",
            [label for label, _ in counts],
            no_class,
        ),
        (
            f"Names in {where} that are not in the data",
            [name for name, _ in labelled.absent],
            labelled.absent,
        ),
    )
    said = [f"{what}: {len(out):,} ({some(few, 3)})." for what, few, out in parts if out]
    left_out = tuple(entry for _, _, out in parts for entry in out)
    notes = (*labelled.notes, *said)
    return Chosen(torch.tensor(rows), torch.tensor(given), known, notes, left_out)


def _classes_of(labelled: Labelled) -> tuple[str, ...]:
    """The labels that are there, sorted; refuses a column of something else."""
    found = [label.strip() for label in labelled.labels if label is not None]
    classes = tuple(in_order(np.array(found))) if found else ()
    if found and len(classes) == 1:
        raise DataError(
            f"{labelled.where}: expected labels of two classes or more; all {len(found):,} are "
            f"{shown(classes[0])}. Add the samples of the other classes."
        )
    if len(classes) > max(_REPEATED * len(found), 2):
        raise DataError(
            f"{labelled.where}: expected classes, with several samples each; got {len(classes):,} "
            f"different labels of {len(found):,} samples ({some(classes, 3)}). Say which column "
            "has the classes with --label COLUMN."
        )
    return classes


def _other_classes(
    counts: Sequence[tuple[str, int]], known: int, classes: tuple[str, ...], where: Path
) -> DataError:
    if not counts:
        return DataError(
            f"{where}: expected at least one readable sample with a label; got none. Fill in the "
            "labels."
        )
    listed = []
    for label, count in counts[:_LISTED]:
        near = difflib.get_close_matches(label, classes, n=1, cutoff=0.7)
        hint = f"; did you mean {shown(near[0])}?" if near else ""
        listed.append(f"{shown(label)} ({count:,}{hint})")
    more = f" and {len(counts) - _LISTED:,} more" if len(counts) > _LISTED else ""
    unknown = sum(count for _, count in counts)
    return DataError(
        f"{where}: expected labels that the model knows ({len(classes):,} classes: "
        f"{some(classes)}); {unknown:,} of {known + unknown:,} are others: "
        f"{', '.join(listed)}{more}. Use the model that was trained with these classes, "
        "or correct the labels."
    )
