"""Starts commands so that they, and all that they start, can be ended for certain."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from flr.core.errors import RunError
from flr.core.interrupts import ctrl_c_waits
from flr.flower.local import reaper as reaper_script

PROGRAMS = Path(sys.executable).parent

_START = 180.0  # seconds a process gets until it can be used, also on a busy machine
_GONE = 10.0  # seconds that ended processes get to leave the process table
_POLL = 0.1
_TAIL = 4000  # bytes of a log that an error shows


class Reaper:
    """Ends the groups of this process if this process cannot do it any more."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-I", "-S", reaper_script.__file__],
            stdin=subprocess.PIPE,
            process_group=0,
        )

    def tell(self, line: str) -> None:
        """ "+<group>" to watch a process group, "-<group>" to forget it."""
        if self._process.stdin is not None:
            self._process.stdin.write(f"{line}\n".encode())
            self._process.stdin.flush()

    def close(self) -> None:
        """Ends it, and with it all groups that it still watches."""
        self._process.communicate()


class Group:
    """Commands in one process group, which is named by the first of them.

    Root may start them as another user, by number; that one needs no entry among the users.
    """

    def __init__(
        self,
        reaper: Reaper,
        environment: Mapping[str, str],
        folder: Path,
        user: int | None = None,
    ) -> None:
        self._reaper = reaper
        self._environment = environment
        self._folder = folder
        self._as = {} if user is None else {"user": user, "group": user, "extra_groups": []}
        self._processes: list[subprocess.Popen[bytes]] = []

    def add(self, command: Sequence[str], log: Path) -> None:
        """Starts a command in the group's folder; what it says is appended to `log`."""
        # a Ctrl-C between start and entry in the list would leave a process that nobody ends
        with log.open("ab") as output, ctrl_c_waits():
            process = subprocess.Popen(  # noqa: S603
                command,
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                process_group=self._processes[0].pid if self._processes else 0,
                **self._as,  # type: ignore[call-overload]
            )
            self._processes.append(process)
            if len(self._processes) == 1:
                self._reaper.tell(f"+{process.pid}")

    @property
    def running(self) -> bool:
        """Whether commands were started and none of them has ended."""
        return bool(self._processes) and all(p.poll() is None for p in self._processes)

    @property
    def pid(self) -> int:
        """Of the first command."""
        return self._processes[0].pid

    def ask_to_end(self) -> None:
        """SIGTERM to what was started here, which ends its own children in its own way."""
        for process in self._processes:
            process.terminate()

    def end(self, until: float) -> None:
        """Waits for the commands up to the monotonic time `until`, then kills what is left."""
        for process in self._processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, until - time.monotonic()))
        self.kill()

    def kill(self) -> None:
        """SIGKILL for the whole group; returns when nothing of it is left."""
        if not self._processes:
            return
        group, until = self._processes[0].pid, time.monotonic() + _GONE
        with suppress(ProcessLookupError):  # raised when the group is gone
            while time.monotonic() < until:
                os.killpg(group, signal.SIGKILL)
                for process in self._processes:
                    process.poll()
                time.sleep(0.02)
        self._reaper.tell(f"-{group}")
        self._processes.clear()


class SuperNodeProcess(Group):
    """Whatever happens to the process: its name, folder, port and key stay the same.

    `kill` also kills its ClientApp; the SuperLink learns of it by missed heartbeats only.
    """

    def __init__(
        self,
        reaper: Reaper,
        environment: dict[str, str],
        folder: Path,
        log: Path,
        command: list[str],
        user: int | None = None,
    ) -> None:
        super().__init__(reaper, environment, folder, user)
        self.name, self.log = folder.name, log
        self._command, self._apps = command, Path(environment["FLWR_HOME"]) / "apps"
        self._log_start = 0

    def start(self) -> None:
        """Starts the process and does not wait for it; see `wait_for_answer`."""
        # an app that a killed process was unpacking would be taken for a complete one
        shutil.rmtree(self._apps, ignore_errors=True)
        self._log_start = self.log.stat().st_size if self.log.exists() else 0
        self.add(self._command, self.log)

    def wait_for_answer(self) -> bool:
        """Whether the SuperLink accepts it; raises RunError if it never gets as far as that."""
        what = f"the SuperNode {self.name} to reach the SuperLink"
        wait_until(lambda: self.node_id is not None or self.refused, what, self, self.log)
        return not self.refused

    def restart(self) -> bool:
        """Kills and starts it; gives whether the SuperLink accepts it.

        After a kill its key counts as in use until two heartbeats are missed: about a minute.
        """
        self.kill()
        self.start()
        return self.wait_for_answer()

    @property
    def node_id(self) -> int | None:
        """The id under which the SuperLink accepted it, once it has."""
        found = re.search(r"SuperNode ID: (\d+)", self._said())
        return int(found[1]) if found else None

    @property
    def refused(self) -> bool:
        """Whether the SuperLink sent it away: its key is unknown, or still in use."""
        return "Exit Code: 305" in self._said()

    def _said(self) -> str:
        text = self.log.read_bytes() if self.log.exists() else b""
        return text[self._log_start :].decode("utf-8", "replace")


def give(folder: Path, user: int | None) -> None:
    """Makes all of a folder another user's; root may."""
    if user is not None:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, user, user)


def tail(log: Path) -> str:
    """The end of a log, for an error message."""
    found = log.read_bytes()[-_TAIL:] if log.exists() else b""
    return found.decode("utf-8", "replace").strip() or "(nothing was written)"


def wait_until(ready: Callable[[], bool], what: str, group: Group, log: Path) -> None:
    """Returns when `ready`; raises RunError, with the end of the log, when that cannot be hoped."""
    until = time.monotonic() + _START
    while not ready():
        running = group.running
        if not running or time.monotonic() > until:
            if ready():  # it may have become so just before the process ended
                return
            state = f"it did not within {_START:g} seconds" if running else "its process ended"
            raise RunError(
                f"Expected {what}; {state}. Look for the reason in {log}, which ends with:\n"
                f"{tail(log)}"
            )
        time.sleep(_POLL)


def free_port() -> int:
    """A port of this machine that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def listens(port: int) -> bool:
    """Whether somebody listens on a port of this machine."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def program(name: str) -> str:
    """The program that was installed with this Python, not whichever comes first on the PATH."""
    found = PROGRAMS / name
    if not found.exists():
        raise RunError(
            f"Expected Flower's program {name} in {PROGRAMS}; there is none. "
            'Install it with: pip install "flr[flower]"'
        )
    return str(found)
