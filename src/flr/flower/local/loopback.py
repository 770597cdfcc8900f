"""A real Flower federation on 127.0.0.1, for trying out and for tests.

Everything lies in one folder; nothing of the user's own Flower settings is read or written:

    home/               FLWR_HOME of the `flwr` commands, with the connection "loopback"
    state.db            the SuperLink's database
    logs/               superlink.log, superexec.log, <node>.log and run-<run>.log
    superlink/          working folder of the SuperLink and of the ServerApp
    nodes/<node>/       working folder of a SuperNode and of its ClientApp
    certificates/ keys/ when secure
    door/               of nginx, where there is a front door
    room/               of the waiting room, where rounds are quick
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

import tomli_w

from flr.core.errors import ConfigError, RunError
from flr.flower.local.certificates import Certificates, make_certificates, make_node_key
from flr.flower.local.front_door import FrontDoor
from flr.flower.local.processes import (
    PROGRAMS,
    Group,
    Reaper,
    SuperNodeProcess,
    free_port,
    give,
    listens,
    program,
    tail,
    wait_until,
)
from flr.flower.local.waiting import WaitingRoom
from flr.flower.quick.processes import NODE

Scalar = str | int | float | bool

_CONNECTION = "loopback"
_END = 3.0  # seconds a process gets to say goodbye; Flower's often need 5 more to end
_LOOK = 0.2  # seconds between two looks at a run
_SWITCHES = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.1",
    "PYTHONUNBUFFERED": "1",
}


class Loopback:
    """SuperLink and SuperNodes of one folder; as a context manager it starts and ends them all.

    With a front door (`secure` only) nodes reach the SuperLink through nginx, as in a deployment.
    `quick` has what stands beside Flower's programs: a waiting room, and a launcher at each node.
    """

    def __init__(
        self,
        folder: Path,
        *,
        secure: bool = False,
        front_door: bool = False,
        quick: bool = False,
    ) -> None:
        self.folder = folder.resolve()
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.nodes: dict[str, SuperNodeProcess] = {}
        self.superlink_log = self.folder / "logs" / "superlink.log"
        for part in ("home", "logs", "superlink", "nodes"):
            (self.folder / part).mkdir(parents=True, exist_ok=True)
        self._certificates: Certificates | None = None
        self._trust = ["--insecure"]
        if secure:
            self._certificates = make_certificates(self.folder / "certificates")
            self._trust = ["--root-certificates", str(self._certificates.authority)]
        self._reaper = Reaper()
        home = self.folder / "superlink" / "home"
        self._superlink = Group(self._reaper, _environment(home), self.folder / "superlink")
        self.door = FrontDoor(self._reaper, self.folder / "door", free_port())
        self._has_door, self._quick = secure and front_door, quick
        self.room = WaitingRoom(self._reaper, self.folder / "room", free_port())

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Starts the SuperLink, or starts it again; returns when it accepts connections.

        Database and port stay the same: SuperNodes find it again.
        """
        connection: dict[str, Scalar] = {"address": self.address, "insecure": True}
        if self._certificates:
            authority = str(self._certificates.authority)
            connection = {"address": self.address, "root-certificates": authority}
        settings = {"superlink": {"default": _CONNECTION, _CONNECTION: connection}}
        (self.folder / "home" / "config.toml").write_text(tomli_w.dumps(settings))
        self.kill_superlink()
        shutil.rmtree(self.folder / "superlink" / "home" / "apps", ignore_errors=True)
        # isolation "process": SuperExec, which starts the ServerApp, is ours to start. A SuperLink
        # would start it in a session of its own, out of reach of a signal to the group.
        command = [program("flower-superlink"), "--host", "127.0.0.1", "--port", str(self.port)]
        command += ["--database", str(self.folder / "state.db"), "--isolation", "process"]
        command += ["--disable-runtime-dependency-installation"]
        if made := self._certificates:
            command += ["--enable-supernode-auth", "--ssl-ca-certfile", str(made.authority)]
            command += ["--ssl-certfile", str(made.server), "--ssl-keyfile", str(made.server_key)]
        else:
            command += ["--insecure"]
        self._superlink.add(command, self.superlink_log)
        what = f"the SuperLink to listen on {self.address}"
        wait_until(lambda: listens(self.port), what, self._superlink, self.superlink_log)
        starter = [program("flower-superexec"), "--runtime-api-address", self.address]
        self._superlink.add([*starter, *self._trust], self.folder / "logs" / "superexec.log")
        if self._quick and not self.room.running:
            self.room.start(self.address, self._certificates)
        if self._has_door and self._certificates and not self.door.running:
            folder, room = self._certificates.authority.parent, self.room.address
            self.door.start(self.address, folder, room if self._quick else self.address)

    def kill_superlink(self) -> None:
        """SIGKILL, for a running ServerApp too; the database stays as it was at that moment."""
        self._superlink.kill()

    def add_node(
        self,
        name: str,
        settings: Mapping[str, Scalar],
        *,
        registered: bool = True,
        user: int | None = None,
    ) -> SuperNodeProcess:
        """Starts a SuperNode with these settings as its node config; see `wait_for_nodes`.

        When secure it gets a key of its own, which the SuperLink knows only if `registered`.
        As `user`, a number, it runs only if this process is root's.
        """
        if name in self.nodes or not re.fullmatch(r"[\w-][\w. -]*", name):
            raise ConfigError(
                f"Expected a new node name of letters, digits, dots, dashes and underscores; got "
                f'"{name}". Choose another one.'
            )
        folder = self.folder / "nodes" / name
        folder.mkdir(exist_ok=True)
        config = folder / "settings.toml"  # a file, because Flower cannot read a quote in a value
        config.write_text(tomli_w.dumps(settings))
        inner = self.room.address if self._quick else self.address
        reached = self.door.address if self._has_door else inner
        command = [program("flower-supernode")]
        if self._quick:
            command = [*NODE]
        command += ["--superlink", reached, *self._trust]
        command += ["--host", "127.0.0.1", "--port", str(free_port())]
        command += ["--node-config", str(config)]
        if self._certificates:
            key = self.folder / "keys" / name
            public = make_node_key(key)
            if registered:
                self._flwr("supernode", "register", str(public), _CONNECTION, "--name", name)
            command += ["--auth-supernode-private-key", str(key)]
            give(key, user)
        give(folder, user)
        log, environment = self.folder / "logs" / f"{name}.log", _environment(folder / "home")
        node = SuperNodeProcess(self._reaper, environment, folder, log, command, user)
        self.nodes[name] = node
        node.start()
        return node

    def wait_for_nodes(self) -> None:
        """Returns when the SuperLink has accepted every node that was added."""
        for node in self.nodes.values():
            if not node.wait_for_answer():
                raise RunError(
                    f"Expected the SuperLink to accept the SuperNode {node.name}; it refused it. "
                    f"Register its key, or wait until the key is free again. {node.log} ends "
                    f"with:\n{tail(node.log)}"
                )

    def run(self, app: Path, run_config: Mapping[str, Scalar]) -> int:
        """Hands the Flower app in folder `app` to the SuperLink; gives the id of the run."""
        overrides = self.folder / "run-config.toml"
        overrides.write_text(tomli_w.dumps(run_config))
        started = self._flwr("run", str(app), _CONNECTION, "--run-config", str(overrides))
        return int(started["run-id"])

    def status(self, run: int) -> str:
        """As Flower names it: pending, starting, running, finished:completed, finished:failed."""
        found = self._flwr("list", _CONNECTION, "--run-id", str(run))
        return str(found["runs"][0]["status"])

    def wait(self, run: int, timeout: float, meanwhile: Callable[[], None] | None = None) -> str:
        """The status of the run once it has finished, well or not; its words are in `run_log`.

        `meanwhile` is called a few times in every second.
        """
        until = time.monotonic() + timeout
        log = self.run_log(run)
        while True:
            self._follow(run, log, until, meanwhile)
            if not self._superlink.running:
                raise RunError(
                    f"Expected run {run} to finish; the SuperLink ended before. Restart it on its "
                    f"database, and resume the run. {self.superlink_log} ends with:\n"
                    f"{tail(self.superlink_log)}"
                )
            status = self.status(run)
            if status.startswith("finished"):
                return status
            if time.monotonic() >= until:
                raise RunError(
                    f"Expected run {run} to finish within {timeout:g} seconds; it is still "
                    f"{status}. Wait longer, or look for the reason in {log.parent}. {log.name} "
                    f"ends with:\n{tail(log)}"
                )

    def run_log(self, run: int) -> Path:
        """What the ServerApp of a run said; Flower sends it nowhere else."""
        return self.folder / "logs" / f"run-{run}.log"

    def _follow(
        self, run: int, log: Path, until: float, meanwhile: Callable[[], None] | None
    ) -> None:
        """Writes what a run says until it ends: cheaper than asking for its status in a loop."""
        log.unlink(missing_ok=True)
        stream = Group(self._reaper, _environment(self.folder / "home"), self.folder)
        stream.add([program("flwr"), "log", str(run), _CONNECTION, "--stream"], log)
        while stream.running and self._superlink.running and time.monotonic() < until:
            time.sleep(_LOOK)
            if meanwhile is not None:
                meanwhile()
        stream.kill()

    def _flwr(self, *arguments: str) -> Any:
        done = subprocess.run(  # noqa: S603
            [program("flwr"), *arguments, "--format", "json"],
            env=_environment(self.folder / "home"),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        try:
            answer = json.loads(done.stdout)
        except json.JSONDecodeError:
            answer = {"error-message": done.stdout + done.stderr}
        if done.returncode or not answer.get("success"):
            raise RunError(
                f"Expected `flwr {' '.join(arguments)}` to succeed; it said: "
                f"{str(answer.get('error-message', done.stderr)).strip()}\n"
                f"Mend that, or look for the reason in {self.superlink_log}."
            )
        return answer

    def close(self) -> None:
        """Asks all processes to end, nodes first, and kills what is left; may be called again."""
        for groups in (list(self.nodes.values()), [self._superlink, self.door, self.room]):
            for group in groups:
                group.ask_to_end()
            until = time.monotonic() + _END
            for group in groups:
                group.end(until)
        self._reaper.close()


def _environment(home: Path) -> dict[str, str]:
    no_proxy = ",".join(filter(None, [os.environ.get("NO_PROXY"), "127.0.0.1"]))
    return {
        **os.environ,
        **_SWITCHES,
        "PATH": os.pathsep.join([str(PROGRAMS), os.environ.get("PATH", os.defpath)]),
        "FLWR_HOME": str(home),
        "NO_PROXY": no_proxy,
        "no_proxy": no_proxy,
    }
