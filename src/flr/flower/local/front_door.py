"""nginx before a SuperLink on this machine, with the config that a generated app has."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from flr.core.errors import RunError
from flr.flower.local.processes import Group, Reaper, listens, wait_until
from flr.flower.new_app import front_door

# what Debian's /etc/nginx/nginx.conf has around files of conf.d, with nothing outside of a folder
_AROUND = """
daemon off;
user root;
pid nginx.pid;
error_log stderr;
worker_processes 1;
events {}
http {
    access_log access.log;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    include flower.conf;
}
"""


class FrontDoor(Group):
    """Lets through what SuperNodes ask for, on a port of its own; all else ends here."""

    def __init__(self, reaper: Reaper, folder: Path, port: int) -> None:
        super().__init__(reaper, dict(os.environ), folder)
        self.folder, self.port, self.address = folder, port, f"127.0.0.1:{port}"

    def start(self, superlink: str, certificates: Path, room: str) -> None:
        """Returns when it listens; `superlink` and `room` are addresses that it stands before."""
        program = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
        if program is None:
            raise RunError("Expected nginx on this machine; there is none. Install its package.")
        self.folder.mkdir(exist_ok=True)
        text = front_door(self.address, superlink, str(certificates), room)
        (self.folder / "flower.conf").write_text(text)
        (self.folder / "nginx.conf").write_text(_AROUND)
        log = self.folder / "nginx.log"
        config = str(self.folder / "nginx.conf")
        self.add([program, "-p", str(self.folder), "-e", "stderr", "-c", config], log)
        wait_until(lambda: listens(self.port), f"nginx to listen on {self.address}", self, log)
