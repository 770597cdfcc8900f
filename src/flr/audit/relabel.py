"""Puts into practice what a person has decided about suspect labels; nothing is ever deleted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from flr.audit.labels_file import CORRECTIONS, LabelTable, as_csv, read_labels, read_table, shown
from flr.core.arrays import write_atomically
from flr.core.errors import DataError

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


def relabel(labels: Path, corrections: Path, out: Path) -> Relabelled:
    """Writes `out` with the accepted labels, and a log of every decision beside it."""
    log = out.with_name(f"{out.name}.log.csv")
    for path in (out, log):
        if path.exists():
            raise DataError(
                f"Expected a new file at {path}; there is one already. Choose another --out, or "
                "move it away."
            )
    table, decided = read_labels(labels), read_corrections(corrections)
    before = dict(zip(table.column("name"), table.column("label"), strict=True))
    _refuse(table, before, decided, corrections)
    known = set(before.values())
    accepted = {
        one.name: one.label if one.label in known else one.label.strip()  # as labels are read
        for one in decided
        if one.decision == "accept"
    }
    after = before | accepted
    logged = ((o.name, before[o.name], after[o.name], o.decision, o.audit) for o in decided)
    write_atomically(log, as_csv(LOG, logged))  # first: no change without its record
    write_atomically(out, table.with_column("label", list(after.values())).text())
    counts = Counter(one.decision for one in decided)
    new = set(accepted.values()) - known - {label.strip() for label in known}
    return Relabelled(
        rows=len(before),
        decisions={decision: counts[decision] for decision in DECISIONS},
        changed=sum(after[name] != label for name, label in before.items()),
        new_labels=tuple(sorted(new)),
        path=out,
        log=log,
    )


def read_corrections(path: Path) -> list[Correction]:
    """What the page has saved, or a person has filled in: nothing is checked yet."""
    table = read_table(path, "a table of corrections", CORRECTIONS)
    columns = zip(table.lines, *(table.column(name) for name in CORRECTIONS), strict=True)
    return [
        Correction(line, name, given, decision.strip().lower(), label, audit.strip())
        for line, name, given, decision, label, audit in columns
    ]


def _refuse(
    table: LabelTable, before: dict[str, str], decided: list[Correction], path: Path
) -> None:
    """All that is wrong at once, so that nobody has to try line by line."""
    found = list(_problems(table.path.name, before, decided))
    if not found:
        return
    more = [f"... and {len(found) - _LISTED:,} more."] if len(found) > _LISTED else []
    listed = "\n".join(f"  {problem}" for problem in [*found[:_LISTED], *more])
    raise DataError(
        f"Expected {path} to be decisions about the labels in {table.path}; "
        f"{len(found):,} things do not fit:\n{listed}\n"
        "Nothing was written. Correct these lines, or take the two files of one audit."
    )


def _problems(file: str, before: dict[str, str], decided: list[Correction]) -> Iterator[str]:
    keys = sorted({one.audit for one in decided})
    if len(keys) > 1:
        yield f"The rows come from {len(keys)} audits ({', '.join(map(shown, keys[:5]))}): one only"
    first: dict[str, int] = {}
    for one in decided:
        at = f"Line {one.line}, {shown(one.name)}:"
        if one.name not in before:
            yield f"{at} {file} has no such sample"
        elif before[one.name].strip() != one.given.strip():
            now = shown(before[one.name])
            yield f"{at} was reviewed as {shown(one.given)}; {file} says {now}"
        if first.setdefault(one.name, one.line) != one.line:
            yield f"{at} is there twice, first on line {first[one.name]}"
        if one.decision not in DECISIONS:
            yield f"{at} the decision is {shown(one.decision)}, not {', '.join(DECISIONS)}"
        elif one.decision == "accept" and not one.label.strip():
            yield f"{at} accept needs the new label"
        elif one.decision != "accept" and one.label.strip():
            yield f"{at} {one.decision} with the label {shown(one.label)}: which is meant?"
