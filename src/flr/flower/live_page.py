"""A page of a running federation: one file in the run folder that is written anew each round."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from flr.flower import watching
from flr.flower.watching import Line, SiteCount
from flr.report import html

log = logging.getLogger("flr")

NAME = "live.html"
EVENTS = 20  # the last refusals, word for word
REFRESH = 10  # seconds until a browser reads the file again
WIDTH, HEIGHT = 600.0, 120.0  # of the curve


@dataclass
class LivePage:
    """Writes `live.html`: rounds, accuracy, and every site. A browser shows it from the disk."""

    folder: Path
    title: str
    rounds: int
    sites: Sequence[str]
    lines: list[Line] = field(init=False)
    counted: dict[str, SiteCount] = field(init=False)
    events: deque[Line] = field(init=False)

    def __post_init__(self) -> None:
        self.lines = watching.rounds_of(self.folder)
        self.counted = watching.counts(self.folder, self.sites)
        self.events = deque(maxlen=EVENTS)
        self._write(running=True)

    def round_end(self, number: int, measured: Line, clients: Sequence[Line]) -> None:
        """Takes in a round and writes the page."""
        self.lines.append(measured)
        for line in clients:
            self.counted[line["site"]].add(line)
            if line["status"] == "refused":
                self.events.appendleft(line)
        self._write(running=True)

    def close(self) -> None:
        """Writes the last page, which no browser needs to read again."""
        self._write(running=False)

    def _write(self, *, running: bool) -> None:
        reached = [float(n["accuracy"]) for n in self.lines if n.get("accuracy") is not None]
        norms = [c.last["update_norm"] for c in self.counted.values() if "update_norm" in c.last]
        usual = median(norms) if norms else 0.0
        try:
            html.render(
                self.folder / NAME,
                "live.html",
                package="flr.flower",
                title=self.title,
                refresh=REFRESH if running else 0,
                done=int(self.lines[-1]["round"]) if self.lines else 0,
                rounds=self.rounds,
                now=f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}",
                seconds=self.lines[-1]["seconds"] if self.lines else None,
                accuracy=reached[-1] if reached else None,
                curve=curve(reached),
                counted=self.counted,
                usual=usual,
                events=list(self.events),
            )
        except OSError as error:  # the run matters more than what is seen of it
            log.warning("%s cannot be written: %s", NAME, error)


def curve(values: Sequence[float]) -> str:
    """Points of a line from left to right, between 0 at the bottom and 1 at the top."""
    step = WIDTH / max(len(values) - 1, 1)
    return " ".join(f"{i * step:.1f},{(1 - v) * HEIGHT:.1f}" for i, v in enumerate(values))
