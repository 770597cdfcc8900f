"""A stranger who has `ca.crt`: shut out by the front door, let in by a SuperLink without one."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import hello_app
import pytest
import tomli_w

from flr.core.errors import DataError
from flr.flower import probe
from flr.flower.local.certificates import make_node_key
from flr.flower.local.loopback import Loopback

NGINX = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
pytestmark = pytest.mark.skipif(NGINX is None, reason="needs nginx, which is not installed")

CALL = {"content-type": "application/protobuf"}
OTHER_SPELLINGS = [
    "/v1/control/list-runs",
    "/v1/fleet/../control/list-runs",
    "/v1/fleet/%2e%2e/control/list-runs",
    "/v1/fleet/pull-messages/../../control/list-runs",
    "/v1/control/list-runs/../../fleet/pull-messages/../../control/list-runs",
    "/v1/control/list-runs/%2e%2e/%2e%2e/fleet/../control/list-runs",
    "/v1/control/list-runs?/v1/fleet/pull-messages",
    "/v1/control/list-runs%23/v1/fleet/pull-messages",
    "/v1/control/list-runs;/v1/fleet/pull-messages",
    "//v1/control/list-runs",
    "/v1//control/list-runs",
    "/./v1/control/list-runs",
    "/V1/CONTROL/list-runs",
    "\\v1\\control\\list-runs",
    "https://localhost/v1/control/list-runs",
    "/v1/fleet/register-node",
    "/v1/fleet/unregister-node",
    "/v1/fleet/pull-messages%0d%0aPOST%20/v1/control/list-runs",
    "/v1/runtime/get-nodes",
    "/v1/runtime/acquire-task",
    "/openapi.json",
    "/docs",
    "/health",
    "/",
]


@dataclass(frozen=True)
class Stranger:
    """Somebody with `ca.crt` and Flower's programs, on another account."""

    home: Path
    authority: Path

    def flwr(self, address: str, *arguments: str) -> str:
        """What Flower says to a command; empty where it did what was asked."""
        connection = {"address": address, "root-certificates": str(self.authority)}
        self.home.mkdir(exist_ok=True)
        (self.home / "config.toml").write_text(tomli_w.dumps({"superlink": {"it": connection}}))
        command = [str(Path(sys.executable).parent / "flwr"), *arguments, "--format", "json"]
        environment = {
            **os.environ,
            "FLWR_HOME": str(self.home),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "NO_PROXY": "127.0.0.1",
        }
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL
        )
        try:
            succeeded = done.returncode == 0 and json.loads(done.stdout)["success"]
        except ValueError:
            succeeded = False
        return "" if succeeded else done.stdout + done.stderr or "it failed"

    def ask(self, address: str, path: str, method: str = "POST") -> int:
        """The status of an answer to a call with a path as it is written here."""
        host, port = address.split(":")
        context = ssl.create_default_context(cafile=self.authority)
        line = http.client.HTTPSConnection(host, int(port), context=context, timeout=20)
        line.request(method, path, headers=CALL)
        return line.getresponse().status


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loopback]:
    folder = tmp_path_factory.mktemp("deployment")
    with Loopback(folder, secure=True, front_door=True, quick=True) as found:
        found.add_node("ward-7", {"site": "ward-7", "data": "/data/ward-7.npz"})
        found.wait_for_nodes()
        yield found


@pytest.fixture
def stranger(federation: Loopback, tmp_path: Path) -> Stranger:
    return Stranger(tmp_path / "home", federation.folder / "certificates" / "ca.crt")


def test_a_stranger_neither_registers_nor_runs_nor_joins_through_the_front_door(
    federation: Loopback, stranger: Stranger, tmp_path: Path
) -> None:
    key, app = make_node_key(tmp_path / "key"), hello_app.write(tmp_path / "app")
    answers = tmp_path / "answers.json"
    run = ["run", str(app), "it", "--run-config", f'answers="{answers}"']
    door = federation.door.address
    node = federation.add_node("stranger", {"site": "ward-7"}, registered=False)
    assert stranger.flwr(door, "supernode", "register", str(key), "it")
    assert stranger.flwr(door, *run)

    # the recipe of before: the SuperLink's own port, which --host 0.0.0.0 would have opened
    port = federation.address
    assert stranger.flwr(port, "supernode", "register", str(key), "it") == ""
    assert stranger.flwr(port, *run) == ""
    until = time.monotonic() + 120
    while not answers.exists() and time.monotonic() < until:
        time.sleep(0.2)
    # its run got what the site has, and went through the front door: that is open for nodes
    assert json.loads(answers.read_text())[0]["data"] == "/data/ward-7.npz"
    assert not node.wait_for_answer()


def test_no_spelling_of_a_path_gets_through(federation: Loopback, stranger: Stranger) -> None:
    port, door = federation.address, federation.door.address
    assert stranger.ask(port, probe.CONTROL) == 200
    found = {path: stranger.ask(door, path) for path in OTHER_SPELLINGS}
    assert {path: status for path, status in found.items() if status not in (400, 404)} == {}
    assert stranger.ask(door, probe.FLEET) == 401  # a node has to sign
    assert stranger.ask(door, probe.FLEET, "GET") == 403


def test_check_warns_of_an_open_control_api_and_of_a_wrong_clock(
    federation: Loopback, stranger: Stranger, cli, monkeypatch
) -> None:
    trust = ["--root-certificates", stranger.authority]
    good = cli("flower", "check", "--superlink", federation.door.address, *trust)
    assert good.code == 0
    assert "Warning" not in good.err + good.out
    bad = cli("flower", "check", "--superlink", federation.address, *trust)
    assert bad.code != 0
    assert "the Control API answers" in bad.message
    assert "the Runtime API answers" in bad.message
    monkeypatch.setattr(probe, "now", lambda: datetime.now(UTC) + timedelta(seconds=60))
    ahead = probe.probe(federation.door.address, stranger.authority)
    assert len(ahead) == 1
    found = re.search(r"(\d+) s ahead", ahead[0])  # a busy machine takes its time to answer
    assert found is not None
    assert int(found[1]) >= 60


def test_an_address_without_a_superlink_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="Expected a SuperLink with TLS"):
        probe.probe("127.0.0.1:1")
