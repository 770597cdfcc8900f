"""Puts into practice what a person has decided about suspect labels; nothing is ever deleted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from flr.audit.labels_file import (
    CORRECTIONS,
    LabelTable,
    as_csv,
    read_labels,
    read_table,
    shown,
    some,
    write_privately,
)
from flr.audit.pairing import pair
from flr.core.errors import DataError
from flr.data.readers import workbooks

DECISIONS = ("accept", "keep", "skip")
LOG = ("name", "before", "after", "decision", "audit")

_LISTED = 20  # problems in one message


@dataclass(frozen=True)
class Correction:
    """One row of corrections.csv."""

    line: int
    name: str
    given: str
    decision: str
    label: str  # the new one; empty unless accepted
    audit: str  # key of the audit that was reviewed


@dataclass(frozen=True)
class Relabelled:
    """What was done, and where it is written."""

    rows: int
    decisions: dict[str, int]
    changed: int
    new_labels: tuple[str, ...]  # that no row had before: a new class, or a slip of the pen
    path: Path
    log: Path


def relabel(
    labels: Path,
    corrections: Sequence[Path],
    out: Path,
    *,
    name: str | None = None,
    label: str | None = None,
) -> Relabelled:
    """Writes `out` with the accepted labels, and a log of every decision beside it.

    The table keeps its dialect, and every cell that nobody has decided on. `name` and `label` are
    its columns, where they are not called so.
    """
    log = out.with_name(f"{out.name}.log.csv")
    _refuse_targets(labels, out, log)
    table = read_labels(labels, name, label)
    files = [_Decided(path, read_corrections(path)) for path in corrections]
    decided = _in_the_tables_words(table, files)
    before = dict(zip(table.names, table.labels, strict=True))
    _refuse(table, before, decided)
    one_each = _one_each(decided)
    known = set(before.values())
    accepted = {
        one.name: one.label if one.label in known else one.label.strip()  # as labels are read
        for one in one_each
        if one.decision == "accept"
    }
    after = before | accepted
    changes = {i: after[n] for i, n in enumerate(table.names) if after[n] != table.labels[i]}
    written = table.with_labels(changes)
    logged = ((o.name, before[o.name], after[o.name], o.decision, o.audit) for o in one_each)
    write_privately(log, as_csv(LOG, logged))  # first: no change without its record
    write_privately(out, written)
    counts = Counter(one.decision for one in one_each)
    new = set(accepted.values()) - known - {label.strip() for label in known}
    return Relabelled(
        rows=len(before),
        decisions={decision: counts[decision] for decision in DECISIONS},
        changed=len(changes),
        new_labels=tuple(sorted(new)),
        path=out,
        log=log,
    )


@dataclass(frozen=True)
class _Decided:
    """One file of corrections."""

    path: Path
    rows: list[Correction]


def _refuse_targets(labels: Path, out: Path, log: Path) -> None:
    for path in (out, log):
        if path.exists():
            raise DataError(
                f"Expected a new file at {path}; there is one already. Choose another --out, or "
                "move it away."
            )
    books = [path.suffix.lower() in workbooks.SUFFIXES for path in (labels, out)]
    if books[0] != books[1]:
        raise DataError(
            f"Expected {out} to be a table like {labels.name}, as relabel keeps its form; got "
            f'"{out.suffix}". Give it the ending {labels.suffix}.'
        )


def _in_the_tables_words(table: LabelTable, files: list[_Decided]) -> list[_Decided]:
    """The corrections with names as the table writes them, which may have other folders."""
    matched = []
    for file in files:
        wanted = list(dict.fromkeys(one.name for one in file.rows))
        found = zip(wanted, pair(wanted, table.names).rows, strict=True)
        called = {name: table.names[row] for name, row in found if row is not None}
        rows = [replace(one, name=called.get(one.name, one.name)) for one in file.rows]
        matched.append(_Decided(file.path, rows))
    return matched


def _one_each(files: list[_Decided]) -> list[Correction]:
    """A decision for each sample; a skip gives way to what somebody else has decided."""
    found: dict[str, Correction] = {}
    for one in (one for file in files for one in file.rows):
        if one.name not in found or found[one.name].decision == "skip":
            found[one.name] = one
    return list(found.values())


def read_corrections(path: Path) -> list[Correction]:
    """What the page has saved, or a person has filled in: nothing is checked yet."""
    sheet, columns = read_table(path, "a table of corrections", CORRECTIONS)
    return [
        Correction(line, name, given, decision.strip().lower(), label, audit.strip())
        for line, name, given, decision, label, audit in zip(sheet.lines, *columns, strict=True)
    ]


def _refuse(table: LabelTable, before: dict[str, str], files: list[_Decided]) -> None:
    """All that is wrong at once, so that nobody has to try line by line."""
    found = [problem for file in files for problem in _problems(table, before, file, len(files))]
    found += _conflicts(files)
    keys = sorted({one.audit for file in files for one in file.rows})
    if len(keys) > 1:
        found.insert(0, f"The rows come from {len(keys)} audits ({some(keys)}): one only")
    if not found:
        return
    more = [f"... and {len(found) - _LISTED:,} more."] if len(found) > _LISTED else []
    listed = "\n".join(f"  {problem}" for problem in [*found[:_LISTED], *more])
    paths = " and ".join(str(file.path) for file in files)
    raise DataError(
        f"Expected {paths} to be decisions about the labels in {table.sheet.path}; "
        f"{len(found):,} things do not fit:\n{listed}\n"
        "Nothing was written. Correct these lines, or take the files of one audit."
    )


def _problems(
    table: LabelTable, before: dict[str, str], file: _Decided, files: int
) -> Iterator[str]:
    named, place = table.sheet.path.name, f"{file.path.name}, line" if files > 1 else "Line"
    first: dict[str, int] = {}
    for one in file.rows:
        at = f"{place} {one.line}, {shown(one.name)}:"
        if one.name not in before:
            yield f"{at} {named} has no such sample"
        elif before[one.name].strip() != one.given.strip():
            now = shown(before[one.name])
            yield f"{at} was reviewed as {shown(one.given)}; {named} says {now}"
        if first.setdefault(one.name, one.line) != one.line:
            yield f"{at} is there twice, first on line {first[one.name]}"
        if one.decision not in DECISIONS:
            yield f"{at} the decision is {shown(one.decision)}, not {', '.join(DECISIONS)}"
        elif one.decision == "accept" and not one.label.strip():
            yield f"{at} accept needs the new label"
        elif one.decision != "accept" and one.label.strip():
            yield f"{at} {one.decision} with the label {shown(one.label)}: which is meant?"


def _conflicts(files: list[_Decided]) -> Iterator[str]:
    """Samples on which two reviewers differ; who has skipped one leaves it to the other."""
    first: dict[str, tuple[_Decided, Correction]] = {}
    for file in files:
        for one in file.rows:
            if one.decision == "skip":
                continue
            other, said = first.setdefault(one.name, (file, one))
            if (said.decision, said.label.strip()) != (one.decision, one.label.strip()):
                yield (
                    f"{shown(one.name)}: {other.path.name} says {_words(said)}, "
                    f"{file.path.name} says {_words(one)}"
                )


def _words(one: Correction) -> str:
    return f"{one.decision} {shown(one.label)}" if one.label else one.decision
