"""What somebody else wrote, as text that does nothing where it is shown: logs and spreadsheets."""

from __future__ import annotations

import os
import re

_LONGEST = 500  # letters of what others say, in a log

_FORMULA = re.compile(r"'*[=+\-@\t\r]")  # how a cell begins that a spreadsheet works out
_NUMBER = re.compile(r"[+-][0-9.]+(e[+-]?[0-9]+)?", re.IGNORECASE)  # harmless, and often meant


def plain(text: object) -> str:
    """One line of printable letters: nobody writes lines, or a terminal's commands, into our log.

    Terminals obey escapes, and some letters turn the direction of others or hide them; each of
    these becomes a question mark.
    """
    line = " ".join(str(text)[: 20 * _LONGEST].split())[:_LONGEST]
    return "".join(c if c.isprintable() else "?" for c in line).rstrip(".")


def printable(text: str) -> str:
    """The same lines for a terminal, which would obey escapes, and cannot show every file name."""
    return "".join(c if c.isprintable() or c in "\n\t" else "?" for c in text)


def counted(count: int, noun: str) -> str:
    """1 site, 2 sites."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def to_cell(text: str) -> str:
    """A cell of a table that no spreadsheet takes for a formula: a quote mark goes before it."""
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def from_cell(cell: str) -> str:
    """The inverse of `to_cell`."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


def kind_of(error: BaseException) -> str:
    """An error's type and, where the system said no, its word for it; no path, no text of others.

    Example:
        >>> kind_of(OSError(28, "No space left on device", "/secret"))
        'OSError (No space left on device)'
    """
    number = getattr(error, "errno", None)
    said = f" ({os.strerror(number)})" if isinstance(number, int) else ""
    return type(error).__name__ + said
