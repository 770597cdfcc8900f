"""Numbers as a reader says them, and names as a document may hold them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}


def percent(value: float | None) -> str:
    """A fraction for a table: one decimal, and a dash where nothing was measured."""
    return "–" if value is None else f"{100 * value:.1f} %"


def points(value: float | None) -> str:
    """A difference of two fractions, in points of a percent and with its sign."""
    return "–" if value is None else f"{100 * value:+.1f}"


def share(value: float) -> str:
    """A fraction for a sentence: whole percent, but never "0 %" or "100 %" when it is not that."""
    if 0 < value < 0.005:
        return "less than 1 %"
    if 0.995 <= value < 1:
        return "more than 99 %"
    return f"{100 * value:.0f} %"


def size(count: float) -> str:
    """Bytes in the largest unit that keeps the number above one."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def news(metrics: Mapping[str, Any]) -> str:
    """A line of `metrics.jsonl` in a few words, for somebody who waits; empty if nothing is new."""
    parts = []
    if metrics.get("accuracy") is not None:
        parts.append(f"accuracy {percent(metrics['accuracy'])}")
    memorization = metrics.get("memorization") or {}
    memorized = (memorization.get("client") or {}).get("noisy_memorized")
    if memorized is not None:
        parts.append(f"memorized {100 * memorized:.0f} %")
    return ", ".join(parts)


def markdown(text: str) -> str:
    """Text that no Markdown reader takes for a sign."""
    return "".join(f"\\{c}" if c in "\\`*_{}[]<>|#" else c for c in text)


def latex(text: str) -> str:
    """Text with everything escaped that means something to LaTeX."""
    return "".join(_LATEX.get(character, character) for character in text)
