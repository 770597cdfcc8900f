"""Agents of sites on this machine, for trying out and for tests, beside a `Loopback`."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from flr.flower.local.processes import Group, Reaper, give, wait_until

_END = 3.0  # seconds an agent gets to say goodbye


class AgentProcess(Group):
    """`flr site serve` in a process of its own; whatever happens to it, folder and socket stay."""

    def __init__(
        self, reaper: Reaper, folder: Path, options: Mapping[str, str], user: int | None
    ) -> None:
        environment = {**os.environ, "HOME": str(folder), "FLR_CACHE": str(folder / "cache")}
        super().__init__(reaper, {**environment, "PYTHONUNBUFFERED": "1"}, folder, user)
        self.state_dir, self.socket = folder / "state", folder / "site.sock"
        self.log = folder.with_suffix(".log")
        given = {"socket": str(self.socket), "state-dir": str(self.state_dir), **options}
        self._command = [sys.executable, "-m", "flr.cli.main", "site", "serve"]
        self._command += [word for key, value in given.items() for word in (f"--{key}", value)]

    def start(self) -> None:
        """Returns when it listens."""
        self.socket.unlink(missing_ok=True)
        self.add(self._command, self.log)
        wait_until(self.socket.exists, f"an agent to listen at {self.socket}", self, self.log)


class Agents:
    """As a context manager it ends all that were added.

    Args:
        folder: Has a folder, a socket and a log for each of them. Sockets have short paths only.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.all: dict[str, AgentProcess] = {}
        self._reaper = Reaper()

    def add(
        self, name: str, options: Mapping[str, str], *, user: int | None = None
    ) -> AgentProcess:
        """Makes an agent with these options of `flr site serve`; see `AgentProcess.start`.

        As `user`, a number, it runs only if this process is root's; its folder is then that user's.
        """
        folder = self.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        give(folder, user)
        agent = self.all[name] = AgentProcess(self._reaper, folder, options, user)
        return agent

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for agent in self.all.values():
            agent.ask_to_end()
        until = time.monotonic() + _END
        for agent in self.all.values():
            agent.end(until)
        self._reaper.close()
