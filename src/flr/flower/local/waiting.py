"""The waiting room of a SuperLink on this machine, as a process that is ended for certain."""

from __future__ import annotations

import os
from pathlib import Path

from flr.flower.local.certificates import Certificates
from flr.flower.local.processes import Group, Reaper, listens, wait_until
from flr.flower.quick.processes import WAITING_ROOM


class WaitingRoom(Group):
    """Stands before the SuperLink on a port of its own."""

    def __init__(self, reaper: Reaper, folder: Path, port: int) -> None:
        super().__init__(reaper, dict(os.environ), folder)
        self.folder, self.port, self.address = folder, port, f"127.0.0.1:{port}"

    def start(self, superlink: str, made: Certificates | None) -> None:
        """Returns when it listens."""
        self.folder.mkdir(exist_ok=True)
        command = [*WAITING_ROOM, "--superlink", superlink]
        command += ["--host", "127.0.0.1", "--port", str(self.port)]
        if made is not None:
            command += ["--certificates", *map(str, (made.authority, made.server, made.server_key))]
        log = self.folder / "room.log"
        self.add(command, log)
        wait_until(
            lambda: listens(self.port), f"the waiting room to listen on {self.address}", self, log
        )
