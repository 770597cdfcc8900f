"""A site's ledger: what left it, when and for whom, in a file that only grows.

Each line is JSON, has the digest of the line before it and its own, so that a line that was changed
or taken out shows; the tip, a small file beside it, shows where the last ones are missing. A line
that a kill or a power cut has torn stays as it is, outside the chain: what it was about has not
left, because a reply goes after its line is on the disk.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock
from pydantic import TypeAdapter, ValidationError

from flr.core import seal
from flr.core.arrays import clear_half_written, sync_to_disk, write_atomically
from flr.core.errors import DataError
from flr.core.plain_text import plain

NAME, TIP = "ledger.jsonl", "ledger.tip"
ROLL_CALL = "roll call"

# what a note may say, and what that tells
NOTE = {
    "site": "name",
    "examples": "samples",
    "shape": "shape",
    "dtype": "type",
    "stateful": "whether it keeps a state",
    "seconds": "seconds",
    "problem": "reason",
    "error": "error of Flower",
}

_TAIL = 1 << 20  # bytes in which the last line is looked for before all are read


@dataclass(frozen=True)
class ArrayForm:
    """The form of an array that was sent, or was declared: there with words in its shape."""

    dtype: str
    shape: tuple[int | str, ...]
    what: str = ""  # it tells, in the words of the method

    def allows(self, sent: ArrayForm) -> bool:
        """Whether an array of that form was declared so; what words mean is known elsewhere."""
        sizes = zip(self.shape, sent.shape, strict=False)
        alike = len(self.shape) == len(sent.shape) and self.dtype == sent.dtype
        return alike and all(isinstance(want, str) or want == size for want, size in sizes)


@dataclass(frozen=True)
class Left:
    """What left the site with one reply."""

    site: str
    run: str  # the experiment's name
    asked: str  # the task, or the roll call
    round: int
    step: int
    attempt: int  # of the run: a resumed one asks for some steps again
    method: str
    note: dict[str, Any]  # what it said, word for word
    weights: int  # arrays of the model that the server sent, in the same form
    arrays: dict[str, ArrayForm]  # all others
    declared: dict[str, ArrayForm]  # what the method says that it sends besides the weights
    bytes: int
    sha256: str  # of all that was sent

    def undeclared(self) -> list[str]:
        """Names of what nobody has declared; empty in a ledger as it should be."""
        odd = [key for key in self.note if key not in NOTE]
        for name, form in self.arrays.items():
            if name not in self.declared or not self.declared[name].allows(form):
                odd.append(name)
        return odd


@dataclass(frozen=True)
class Line(Left):
    """One line of the file."""

    number: int
    time: str
    previous: str
    digest: str


@dataclass
class Ledger:
    """All lines that can be read, and what is wrong with the file."""

    lines: list[Line] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    torn: list[int] = field(default_factory=list)  # places of lines that were cut off


def append(folder: Path, left: Left) -> None:
    """Adds a line; when this returns it is on the disk."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / NAME
    with FileLock(folder / ".ledger.lock"):  # sites of one machine, or two runs, may share it
        clear_half_written(folder / TIP)
        number, previous, whole = _last(path)
        # where the last lines were removed, the next one must not close the gap
        number, previous = max((number, previous), _tip(folder))
        now = datetime.now(UTC).isoformat(timespec="seconds")
        facts = {"number": number + 1, "time": now, **asdict(left), "previous": previous}
        digest = seal.sha256(_text(facts).encode())
        line = _text({**facts, "digest": digest}) + "\n"
        new = not path.exists()
        with path.open("ab") as file:
            file.write(("" if whole else "\n").encode() + line.encode())
            file.flush()
            os.fsync(file.fileno())
        if new:
            sync_to_disk(folder)
        write_atomically(folder / TIP, f"{number + 1} {digest}\n", sync=True)


def replies(folder: Path, site: str, run: str | None = None, since: datetime | None = None) -> int:
    """How many replies with arrays have left a site, in a run or in all, and since a moment.

    Looks at what the lines say, not whether anybody has changed them: it is asked at every task.
    """
    found, path = 0, folder / NAME
    for row in reversed(path.read_bytes().split(b"\n")) if path.exists() else ():
        with suppress(ValueError, RecursionError, KeyError, TypeError):
            line = json.loads(row)
            if since is not None and datetime.fromisoformat(line["time"]) < since:
                break
            ours = line["site"] == site and run in (None, line["run"])
            found += ours and bool(line["weights"] or line["arrays"])
    return found


def read(folder: Path) -> Ledger:
    """The ledger in a state-dir, with all that is wrong with it."""
    try:
        rows = (folder / NAME).read_bytes().split(b"\n")
    except (FileNotFoundError, NotADirectoryError):
        if (folder / TIP).exists():
            rows = []
        else:
            raise DataError(
                f"Expected the state-dir of a node at {folder}; it has no {NAME}. Give the "
                "`state-dir` of its node config; before the first roll call there is none."
            ) from None
    found, last = Ledger(), (0, "")
    for place, row in enumerate(rows, start=1):
        if not row:
            continue
        line, problem = _parse(row)
        if line is None and not problem:
            found.torn.append(place)
            continue
        if line is not None and not problem and (line.number - 1, line.previous) != last:
            problem = f"does not follow number {last[0]}: lines before it were changed or removed"
        if problem:
            found.problems.append(f"line {place} {problem}")
        if line is not None:
            found.lines.append(line)
            last = (line.number, line.digest)
            if odd := line.undeclared():
                names = ", ".join(map(plain, odd))
                found.problems.append(f"line {place} has what was not declared: {names}")
    _check_tip(folder, found)
    return found


def _check_tip(folder: Path, found: Ledger) -> None:
    """A kill may come between a line and the tip, so the tip may be one line behind."""
    known = {line.number: line.digest for line in found.lines}
    newest = max(known, default=0)
    number, digest = _tip(folder)
    if number and known.get(number) != digest:
        found.problems.append(f"number {number}, which {TIP} vouches for, was changed or removed")
    elif number < newest - 1:
        found.problems.append(f"{TIP} is gone, damaged or old: the last lines may be missing")


def _tip(folder: Path) -> tuple[int, str]:
    """Number and digest of the line that the tip vouches for; zero where there is none."""
    try:
        number, digest = (folder / TIP).read_text().split()
        return int(number), digest
    except (FileNotFoundError, ValueError):
        return 0, ""


def _parse(row: bytes) -> tuple[Line | None, str]:
    """A line and what is wrong with it; neither for one that is torn."""
    try:
        facts = json.loads(row)
    except (ValueError, RecursionError):
        return None, ""
    try:
        line = TypeAdapter(Line).validate_json(row, strict=True)
    except (ValidationError, ValueError):
        return None, "is not one that flr writes"
    digest = facts.pop("digest")
    same = _text({**facts, "digest": digest}).encode() == row
    if not same or seal.sha256(_text(facts).encode()) != digest:
        return line, "was changed: it is not what its digest vouches for"
    return line, ""


def _last(path: Path) -> tuple[int, str, bool]:
    """Number and digest of the last whole line, and whether the file ends with one."""
    if not path.exists():
        return 0, "", True
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        for start in (max(size - _TAIL, 0), 0):
            file.seek(start)
            data = file.read()
            for row in reversed(data.split(b"\n")):
                line, _ = _parse(row)
                if line is not None:
                    return line.number, line.digest, data.endswith(b"\n")
    return 0, "", data.endswith(b"\n") or not data


def _text(facts: Mapping[str, Any]) -> str:
    """One line, in the order in which a person wants to read it."""
    return json.dumps(facts, ensure_ascii=False, allow_nan=False)
