"""What the processes of an engine use, and what the whole machine does; on Linux only."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread
from typing import Any

import psutil

CAN_MEASURE: bool = psutil.LINUX  # other systems do not tell shared memory apart
_PAUSE = 0.02  # seconds between two looks at memory


def session(leader: int) -> set[psutil.Process]:
    """The process that leads a session, its orphans, and the descendants of all of these."""
    found: set[psutil.Process] = set()
    for process in psutil.process_iter():
        with suppress(psutil.NoSuchProcess, ProcessLookupError):  # it has just ended
            if process not in found and os.getsid(process.pid) == leader:
                found |= {process, *process.children(recursive=True)}
    return found


def proportional_memory(leader: int) -> int:
    """Bytes of a session; what processes share counts once (PSS)."""
    return sum(_each(session(leader), lambda process: process.memory_full_info().pss).values())


def cpu_seconds(leader: int) -> dict[psutil.Process, float]:
    """Processor time of each process of a session until now."""
    return _each(session(leader), lambda process: sum(process.cpu_times()[:2]))


def busy_seconds() -> float:
    """Processor time that anybody has used since the machine started, over all cores."""
    now = psutil.cpu_times()
    return float(now.user + now.nice + now.system + now.irq + now.softirq + now.steal)


@contextmanager
def watched_memory(leader: int) -> Iterator[list[int]]:
    """What a session has had, look by look, until the block ends."""
    seen: list[int] = []
    over = Event()

    def watch() -> None:
        while CAN_MEASURE and not over.wait(_PAUSE):
            seen.append(proportional_memory(leader))

    watching = Thread(target=watch)
    watching.start()
    try:
        yield seen
    finally:
        over.set()
        watching.join()


def _each(
    processes: set[psutil.Process], use: Callable[[psutil.Process], Any]
) -> dict[psutil.Process, Any]:
    """What each uses, of those that are still there."""
    found = {}
    for process in processes:
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            found[process] = use(process)
    return found
