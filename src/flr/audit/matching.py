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
from flr.core.errors import DataError

FEW = 0.05  # of the labels may be unknown to the model: slips; more of them are other classes

_LISTED = 10


@dataclass(frozen=True, eq=False)
class Chosen:
    """The samples that can be audited, and those that cannot, with the reason."""

    rows: Tensor  # int64: positions in the data
    given: Tensor  # int64: positions in the model's classes
    notes: tuple[str, ...]  # sentences on what is left out
    left_out: tuple[tuple[str, str], ...]  # every name, with the reason


def by_name(path: Path, names: Sequence[str], data: Path, classes: tuple[str, ...]) -> Chosen:
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
    labels = [cells[name] if cells.get(name, "").strip() else None for name in names]
    absent = [name for name in cells if name not in here]
    notes = []
    if [name for name in names if name in cells] != [name for name in cells if name in here]:
        notes.append(
            f"Whether equal names mean the same samples: {path.name} has another order than the "
            "data, and was matched by name."
        )
    return choose(names, labels, classes, path, absent, notes)


def choose(
    names: Sequence[str],
    labels: Sequence[str | None],
    classes: tuple[str, ...],
    where: Path,
    absent: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> Chosen:
    """Takes what has a label that the model knows; `absent` are names that have no sample."""
    position = {name: number for number, name in enumerate(classes)}
    rows, given, unlabelled = [], [], []
    unknown: list[tuple[str, str]] = []
    for row, (name, label) in enumerate(zip(names, labels, strict=True)):
        number = None if label is None else position.get(label, position.get(label.strip()))
        if label is None:
            unlabelled.append(name)
        elif number is None:
            unknown.append((name, label))
        else:
            rows.append(row)
            given.append(number)
    counts = Counter(label for _, label in unknown).most_common()
    if not rows or len(unknown) > FEW * (len(rows) + len(unknown)):
        raise _other_classes(counts, len(rows), classes, where)
    parts = (
        (
            f"Samples without a label in {where.name}",
            unlabelled,
            [(name, f"no label in {where.name}") for name in unlabelled],
        ),
        (
            "Labels that are no class of the model, so look at them yourself",
            [label for label, _ in counts],
            [(name, f"label {shown(label)} is no class of the model") for name, label in unknown],
        ),
        (
            f"Names in {where.name} that are not in the data",
            absent,
            [(name, "named in the labels, not in the data") for name in absent],
        ),
    )
    said = [f"{what}: {len(out):,} ({some(few, 3)})." for what, few, out in parts if out]
    left_out = tuple(entry for _, _, out in parts for entry in out)
    return Chosen(torch.tensor(rows), torch.tensor(given), (*notes, *said), left_out)


def _other_classes(
    counts: Sequence[tuple[str, int]], known: int, classes: tuple[str, ...], where: Path
) -> DataError:
    if not counts:
        return DataError(
            f"{where}: expected at least one sample with a label; got none. Fill in the labels."
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
