"""What can be seen of a running federation: counted here, for a page and for Prometheus."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from flr.report import jsonl
from flr.report.recorder import CLIENTS, METRICS

Line = Mapping[str, Any]


class Watcher(Protocol):
    """Is told of every round once it is written down."""

    def round_end(self, number: int, measured: Line, clients: Sequence[Line]) -> None:
        """`measured` is the line of metrics.jsonl, `clients` those of clients.jsonl."""

    def close(self) -> None:
        """The run is over, well or not."""


@dataclass
class SiteCount:
    """What became of a site so far."""

    ok: int = 0
    dropped: int = 0
    refused: int = 0
    late: int = 0
    bytes_up: int = 0
    bytes_down: int = 0
    last: Line = field(default_factory=dict)

    def add(self, line: Line) -> None:
        """Takes in a line of clients.jsonl."""
        status = str(line["status"])
        setattr(self, status, getattr(self, status) + 1)
        self.late = int(line.get("late", self.late))
        self.bytes_up += int(line["bytes_up"])
        self.bytes_down += int(line["bytes_down"])
        self.last = line


def counts(folder: Path, sites: Sequence[str]) -> dict[str, SiteCount]:
    """All sites as a run folder has them so far, for a run that goes on."""
    found = {site: SiteCount() for site in sites}
    for line in jsonl.read(folder / CLIENTS, damaged=True):
        if line.get("site") in found:
            found[line["site"]].add(line)
    return found


def rounds_of(folder: Path) -> list[Line]:
    """The lines of metrics.jsonl so far."""
    return list(jsonl.read(folder / METRICS, damaged=True))
