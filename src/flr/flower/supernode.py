"""A SuperNode of a loopback federation, which can be killed and brought back."""

from __future__ import annotations

import re
import shutil
import time
from pathlib import Path

from flr.flower.processes import Group, wait_until

_BETWEEN_TRIES = 2.0


class Node:
    """Whatever happens to the process: its name, folder, port and key stay the same."""

    def __init__(self, name: str, command: list[str], log: Path, group: Group, home: Path) -> None:
        self.name = name
        self.log = log
        self._command = command
        self._group = group
        self._home = home
        self._log_start = 0

    def start(self) -> None:
        """Starts the process and does not wait for it; see `wait_for_answer`."""
        # an app that a killed process was unpacking would be taken for a complete one
        shutil.rmtree(self._home / "apps", ignore_errors=True)
        self._log_start = self.log.stat().st_size if self.log.exists() else 0
        self._group.start(self._command, self.log)

    def wait_for_answer(self) -> bool:
        """Whether the SuperLink accepts it; raises RunError if it never gets as far as that."""
        wait_until(
            lambda: self.node_id is not None or self.refused,
            f"the SuperNode {self.name} to reach the SuperLink",
            self._group,
            self.log,
        )
        return not self.refused

    def restart(self, patience: float = 0.0) -> bool:
        """Kills and starts it, again and again while it is refused, for `patience` seconds.

        After a kill its key counts as in use until two heartbeats are missed: about a minute.
        """
        until = time.monotonic() + patience
        while True:
            self.kill()
            self.start()
            accepted = self.wait_for_answer()
            if accepted or time.monotonic() >= until:
                return accepted
            time.sleep(_BETWEEN_TRIES)

    def kill(self) -> None:
        """SIGKILL, for its ClientApp too; the SuperLink learns of it by missed heartbeats only."""
        self._group.kill()

    def ask_to_end(self) -> None:
        """SIGTERM: it says goodbye to the SuperLink and ends."""
        self._group.ask_to_end()

    def end(self, until: float) -> None:
        """Waits for it up to the monotonic time `until`, then kills what is left."""
        self._group.wait(until)
        self._group.kill()

    @property
    def alive(self) -> bool:
        return self._group.running

    @property
    def exit_code(self) -> int | None:
        """None while it runs. Flower's own code, such as 305, is only in its log: see `refused`."""
        return self._group.exit_code

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
        if not self.log.exists():
            return ""
        return self.log.read_bytes()[self._log_start :].decode("utf-8", "replace")
