"""Shows a run while it runs below a notebook's cell; everywhere else `flr.run` is silent."""

from __future__ import annotations

import html
import sys
import time
from typing import Any

from flr.report.formatting import news
from flr.simulation.run import OnRound


def in_notebook() -> bool:
    """Whether a Jupyter kernel runs this code; asks without importing IPython."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None


def watched(on_round: OnRound | None, label: str, rounds: int) -> OnRound | None:
    """What is called after each round: the caller's own function, or a bar if in a notebook."""
    return NotebookProgress(label, rounds) if on_round is None and in_notebook() else on_round


class NotebookProgress:
    """A bar with the newest numbers, updated in place; in plain text where HTML is not shown."""

    def __init__(self, label: str, rounds: int) -> None:
        from IPython.display import display

        self.label, self.rounds = label, rounds
        self.first: tuple[int, float] | None = None  # round and time; before it is start-up
        self.news = "starting"
        shown = bundle(self.text(0, ""), 0, rounds)
        self.handle: Any = display(shown, raw=True, display_id=True)  # type: ignore[no-untyped-call]

    def __call__(self, metrics: dict[str, Any]) -> None:
        """A round is over."""
        done, now = int(metrics["round"]), time.monotonic()
        self.first = self.first or (done, now)
        since, then = self.first
        left = (now - then) / max(done - since, 1) * (self.rounds - done)
        self.news = news(metrics) or self.news
        known = since < done < self.rounds
        text = self.text(done, f", {left:.0f} s left" if known else "")
        self.handle.update(bundle(text, done, self.rounds), raw=True)

    def text(self, done: int, left: str) -> str:
        """The newest state in one line."""
        return f"{self.label}: round {done} of {self.rounds}, {self.news}{left}"


def bundle(text: str, done: int, rounds: int) -> dict[str, str]:
    """A line with a bar for notebooks, and without one for what shows plain text only."""
    bar = f'<progress value="{done}" max="{rounds}" aria-label="rounds"></progress>'
    return {"text/plain": text, "text/html": f"<div>{bar} {html.escape(text)}</div>"}
