"""JSON lines: files that only grow, so that a kill can spoil at most the last line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from flr.core import seal
from flr.core.arrays import write_atomically
from flr.core.errors import DataError

Line = dict[str, Any]


def append(path: Path, lines: Iterable[Line]) -> None:
    """Adds lines in one write. NaN is refused: it is not JSON, and None says the same honestly."""
    text = "".join(_dump(line) for line in lines)
    with path.open("a", encoding="utf-8") as file:
        file.write(text)


def read(path: Path, *, damaged: bool = False) -> list[Line]:
    """All complete lines, without a half-written last one; no file is no lines.

    Of a file that may be `damaged`, the lines before the first one that is no JSON.
    """
    if not path.exists():
        return []
    if not damaged:
        seal.check(path, f"write it again from the checkpoint: flr resume {path.parent}")
    rows = path.read_bytes().rstrip(b"\n").split(b"\n")
    found: list[Line] = []
    for number, row in enumerate(rows, start=1):
        try:
            line = json.loads(row)
        except (ValueError, RecursionError):
            line = None
        if isinstance(line, dict):
            found.append(line)
        elif damaged:
            break
        elif number < len(rows):
            raise DataError(
                f"Expected a JSON object on every line of {path}; line {number} is none. "
                "The file was changed from outside; take another copy of the run folder."
            )
    return found


def keep(path: Path, wanted: Callable[[Line], bool]) -> None:
    """Rewrites a file with the complete lines that are wanted; a reader never sees half of it."""
    if path.exists():
        write_atomically(
            path, "".join(_dump(line) for line in read(path, damaged=True) if wanted(line))
        )


def _dump(line: Line) -> str:
    return json.dumps(line, allow_nan=False, ensure_ascii=False) + "\n"
