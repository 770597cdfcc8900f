"""What somebody else wrote, as text that does nothing where it is shown: logs and terminals."""

from __future__ import annotations

_LONGEST = 500  # letters of what others say, in a log


def plain(text: object) -> str:
    """One line of printable letters: nobody writes lines, or a terminal's commands, into our log.

    Terminals obey escapes, and some letters turn the direction of others or hide them; each of
    these becomes a question mark.
    """
    line = " ".join(str(text)[: 20 * _LONGEST].split())[:_LONGEST]
    return "".join(c if c.isprintable() else "?" for c in line).rstrip(".")
