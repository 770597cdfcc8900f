"""Starts commands so that they, and all that they start, can be ended for certain."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from flr.errors import RunError
from flr.flower import guard

_START = 180.0  # seconds a process gets until it can be used, also on a busy machine
_GONE = 10.0  # seconds that ended processes get to leave the process table
_POLL = 0.1
_TAIL = 4000  # bytes of a log that an error shows


class Guard:
    """Ends the groups of this process if this process cannot do it any more."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-I", "-S", guard.__file__],
            stdin=subprocess.PIPE,
            text=True,
            process_group=0,
        )

    def watch(self, group: int) -> None:
        self._tell(f"+{group}\n")

    def forget(self, group: int) -> None:
        self._tell(f"-{group}\n")

    def close(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()

    def _tell(self, line: str) -> None:
        if self._process.stdin is not None:
            self._process.stdin.write(line)
            self._process.stdin.flush()


class Group:
    """Commands in one process group, which is named by the first of them."""

    def __init__(self, guard: Guard, environment: Mapping[str, str], folder: Path) -> None:
        self._guard = guard
        self._environment = environment
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        self._last_code: int | None = None

    def start(self, command: Sequence[str], log: Path) -> None:
        """Adds a command; what it says is appended to `log`. Its folder is the group's."""
        with log.open("ab") as output:
            process = subprocess.Popen(  # noqa: S603
                command,
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                process_group=self._processes[0].pid if self._processes else 0,
            )
        self._last_code = None
        self._processes.append(process)
        if len(self._processes) == 1:
            self._guard.watch(process.pid)

    @property
    def running(self) -> bool:
        return bool(self._processes) and self.exit_code is None

    @property
    def exit_code(self) -> int | None:
        """Of a command that has ended; None while all of them run, or before the first start."""
        codes = [process.poll() for process in self._processes]
        return next((code for code in codes if code is not None), self._last_code)

    def ask_to_end(self) -> None:
        """SIGTERM to what was started here, which ends its own children in its own way."""
        for process in self._processes:
            process.terminate()

    def wait(self, until: float) -> None:
        """Waits for the commands to end by themselves, up to the monotonic time `until`."""
        for process in self._processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, until - time.monotonic()))

    def kill(self) -> None:
        """SIGKILL for the whole group; returns when nothing of it is left."""
        if not self._processes:
            return
        group = self._processes[0].pid
        until = time.monotonic() + _GONE
        while _signal(group, signal.SIGKILL) and time.monotonic() < until:
            for process in self._processes:
                process.poll()
            time.sleep(0.02)
        self._guard.forget(group)
        self._last_code = self.exit_code
        self._processes.clear()


def tail(log: Path) -> str:
    """The end of a log, for an error message."""
    if not log.exists():
        return "(nothing was written)"
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _TAIL))
        return file.read().decode("utf-8", "replace").strip() or "(nothing was written)"


def wait_until(ready: Callable[[], bool], what: str, group: Group, log: Path) -> None:
    """Returns when `ready`; raises RunError, with the end of the log, when that cannot be hoped."""
    until = time.monotonic() + _START
    while not ready():
        running = group.running
        if not running or time.monotonic() > until:
            if ready():  # its last words may have come after the first look
                return
            state = f"it did not within {_START:g} seconds" if running else "its process ended"
            raise RunError(
                f"Expected {what}; {state}. Look for the reason in {log}, which ends with:\n"
                f"{tail(log)}"
            )
        time.sleep(_POLL)


def _signal(group: int, number: signal.Signals) -> bool:
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    return True
