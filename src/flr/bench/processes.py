"""What a process and its descendants use, and what the rest of the machine does; Linux only."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_CAN_MEASURE = (_PROC / "self" / "smaps_rollup").exists()
_TICKS = os.sysconf("SC_CLK_TCK") if _CAN_MEASURE else 1
_IDLE = (3, 4)  # fields of the first line of /proc/stat: idle, and waiting for a disk


@dataclass(frozen=True)
class Process:
    """One line of /proc/PID/stat."""

    pid: int
    parent: int
    session: int
    seconds: float  # of processor time


def can_measure() -> bool:
    """Whether the system tells what processes use."""
    return _CAN_MEASURE


def all_processes() -> dict[int, Process]:
    """Every process that there is."""
    found = (_process(entry) for entry in _PROC.iterdir() if entry.name.isdigit())
    return {process.pid: process for process in found if process is not None}


def family(root: int, known: dict[int, Process]) -> set[int]:
    """A process that leads a session, its descendants, and orphans of the session."""
    children: dict[int, list[int]] = {}
    for process in known.values():
        children.setdefault(process.parent, []).append(process.pid)
    found: set[int] = set()
    waiting = [root, *(p.pid for p in known.values() if p.session == root)]
    while waiting:
        pid = waiting.pop()
        if pid not in found:
            found.add(pid)
            waiting += children.get(pid, [])
    return found & known.keys()


def proportional_memory(pids: Iterable[int]) -> int:
    """Bytes; what processes share counts once (PSS)."""
    return sum(_pss(pid) for pid in pids)


def busy_seconds() -> float:
    """Processor time that anybody has used since the machine started, over all cores."""
    numbers = [int(n) for n in (_PROC / "stat").read_text().splitlines()[0].split()[1:9]]
    return sum(n for place, n in enumerate(numbers) if place not in _IDLE) / _TICKS


def _process(entry: Path) -> Process | None:
    try:
        text = (entry / "stat").read_text()
    except OSError:
        return None  # ended in the meantime
    fields = text[text.rindex(")") + 2 :].split()
    seconds = (int(fields[11]) + int(fields[12])) / _TICKS
    return Process(int(entry.name), int(fields[1]), int(fields[3]), seconds)


def _pss(pid: int) -> int:
    try:
        text = (_PROC / str(pid) / "smaps_rollup").read_text()
    except OSError:
        return 0
    for line in text.splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return 0
