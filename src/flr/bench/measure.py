"""One engine alone in a fresh process: how much memory it takes, and whether it ends well."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from tempfile import TemporaryFile
from typing import Any

from flr.bench import processes
from flr.errors import RunError

QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
}
_PAUSE = 0.02  # seconds between two looks
LINES = 12  # of an engine that failed


@dataclass(frozen=True)
class Measured:
    """What became of one run of an engine."""

    engine: str
    repeat: int
    first_round: float  # seconds from the start of the process to the end of its first round
    rounds: tuple[float, ...]  # seconds of each round but the first
    cpu: float | None  # seconds of all its processes, in these rounds
    memory: int | None  # bytes at most; None where nobody looked
    others: float | None  # share of the machine's cores that other processes used meanwhile
    load: float  # the system's load average before
    steps: int | None
    version: str = ""
    difference: float | None = None  # of its weights to the unit's, as a share of what was learned
    weights: str | None = field(default=None, compare=False)

    @property
    def round(self) -> float:
        """Seconds of a round in the middle."""
        return median(self.rounds)


@dataclass
class Watch:
    """Looks at a process and its descendants from time to time."""

    root: int
    memory: bool
    seconds: dict[int, float] = field(default_factory=dict)  # by process, when last seen
    peak: int = 0

    def look(self) -> None:
        """Notes what they have used."""
        known = processes.all_processes()
        own = processes.family(self.root, known)
        self.seconds |= {pid: known[pid].seconds for pid in own}
        if self.memory:
            self.peak = max(self.peak, processes.proportional_memory(own))


def look_at(engine: str, command: Sequence[str]) -> Measured:
    """Runs a command that prints its result as JSON in the last line, for its memory.

    Looking costs time: such a run is not for timing.
    """
    looks, load = processes.can_measure(), os.getloadavg()[0]
    with TemporaryFile("w+") as said, TemporaryFile("w+") as grumbled:
        started = time.monotonic()
        process = subprocess.Popen(  # noqa: S603 - our own engines, and adapters the user named
            command,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=grumbled,
            env={**os.environ, **QUIET},
            start_new_session=True,
        )
        watch = Watch(process.pid, memory=True)
        try:
            if looks:
                _watch_to_the_end(watch)
            process.wait()
        finally:
            end(process)
        result = _result(engine, process.returncode, _text(said), _text(grumbled))
    ends = [float(end) for end in result["ends"]]
    return Measured(
        engine=engine,
        repeat=0,
        first_round=ends[0] - started,
        rounds=tuple(after - before for before, after in pairwise(ends)),
        cpu=None,
        memory=watch.peak if looks else None,
        others=None,  # looking is what else the machine did
        load=load,
        steps=result.get("steps"),
        version=str(result.get("version", "")),
        weights=result.get("weights"),
    )


def end(process: subprocess.Popen[Any]) -> None:
    """Ends a process that leads a session, with those it has started; one that has ended stays."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _watch_to_the_end(watch: Watch) -> None:
    """A process that has ended and waits to be fetched still tells what it used."""
    while os.waitid(os.P_PID, watch.root, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        watch.look()
        time.sleep(_PAUSE)
    watch.look()


def _text(file: Any) -> str:
    file.seek(0)
    return str(file.read())


def _result(engine: str, code: int, said: str, grumbled: str) -> dict[str, Any]:
    """The last line of what it said."""
    try:
        result = json.loads(said.strip().splitlines()[-1])
        if code == 0 and len(result["ends"]) >= 2:
            return dict(result)
    except (ValueError, IndexError, KeyError, TypeError):
        pass
    last = "\n".join((grumbled.strip() or said.strip()).splitlines()[-LINES:])
    raise RunError(
        f'Expected {engine} to end with one line of JSON that has "ends" of two rounds or more; '
        f"it ended with code {code}. Mend it, or leave it out. Its last lines:\n{last}"
    )
