"""A federation of real processes: it starts, answers, keeps strangers out and leaves nothing."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import hello_app
import pytest
from cryptography.hazmat.primitives.serialization import load_ssh_private_key, load_ssh_public_key
from cryptography.x509 import Certificate, load_pem_x509_certificate

from flr.core.errors import ConfigError, RunError
from flr.flower.local.certificates import make_certificates, make_node_key
from flr.flower.local.loopback import Loopback


@pytest.fixture
def app(tmp_path: Path) -> Path:
    return hello_app.write(tmp_path / "app")


def processes(folder: Path) -> list[str]:
    """The processes that inherited an FLWR_HOME inside `folder`, whoever started them."""
    mark = f"FLWR_HOME={folder}".encode()
    return [command for command, environment in _all_processes() if mark in environment]


def _all_processes() -> Iterator[tuple[str, bytes]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                environment = (entry / "environ").read_bytes()
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:  # it has just ended, or is somebody else's
                continue
            yield command, environment


def test_a_plain_federation_answers_and_leaves_no_process(tmp_path: Path, app: Path) -> None:
    folder, answers = tmp_path / "federation", tmp_path / "answers.json"
    settings = [
        {"site": 'the "north" ward', "number": 0, "share": 0.5, "open": True},
        {"site": "it's = another", "number": 1, "share": 1.0, "open": False},
    ]
    with Loopback(folder) as federation:
        for number, own in enumerate(settings):
            federation.add_node(f"node-{number}", own)
        federation.wait_for_nodes()
        run = federation.run(app, {"answers": str(answers)})
        assert federation.wait(run, 120) == "finished:completed", federation.run_log(run)
        assert sorted(json.loads(answers.read_text()), key=lambda own: own["number"]) == settings

        assert processes(folder)
        federation.kill_superlink()
        with pytest.raises(RunError, match="SuperLink ended before"):
            federation.wait(run, 120)
        federation.start()
        assert federation.status(run) == "finished:completed"
    assert processes(folder) == []
    assert not any(node.running for node in federation.nodes.values())


def test_a_secure_federation_accepts_registered_keys_only(tmp_path: Path) -> None:
    folder = tmp_path / "federation"
    with Loopback(folder, secure=True) as federation:
        known = federation.add_node("known", {"site": "a"})
        federation.wait_for_nodes()
        stranger = federation.add_node("stranger", {"site": "b"}, registered=False)
        with pytest.raises(RunError, match="accept the SuperNode stranger; it refused it"):
            federation.wait_for_nodes()
        assert stranger.refused
        assert stranger.node_id is None
        assert known.running
        assert known.node_id is not None

        known.kill()
        assert not known.running
        assert not known.restart(), "its key should count as in use until heartbeats are missed"
    assert processes(folder) == []


def test_an_error_ends_the_federation(tmp_path: Path) -> None:
    folder = tmp_path / "federation"

    def interrupted() -> None:
        with Loopback(folder) as federation:
            federation.add_node("node", {"site": "a"})
            assert processes(folder)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert processes(folder) == []


def test_a_killed_parent_leaves_no_process(tmp_path: Path) -> None:
    folder = tmp_path / "federation"
    script = (
        "import sys, pathlib, flr.flower.local.loopback as loopback\n"
        "federation = loopback.Loopback(pathlib.Path(sys.argv[1]))\n"
        "federation.start()\n"
        "federation.add_node('node', {'site': 'a'})\n"
        "federation.wait_for_nodes()\n"
        "print('ready', flush=True)\n"
        "sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", script, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"ready\n"
        assert processes(folder)
        parent.kill()
    for _ in range(600):
        if not processes(folder):
            return
        time.sleep(0.1)
    pytest.fail(f"still there: {processes(folder)}")


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden"])
def test_a_node_name_that_is_no_folder_name_is_refused(tmp_path: Path, name: str) -> None:
    federation = Loopback(tmp_path)
    with pytest.raises(ConfigError, match="Choose another one"):
        federation.add_node(name, {})
    federation.close()


def test_keys_fit_together_and_private_ones_are_for_their_owner_only(tmp_path: Path) -> None:
    made = make_certificates(tmp_path / "certificates")
    key = tmp_path / "keys" / "node"
    public = make_node_key(key)
    private = {made.server_key, key}
    assert {path.stat().st_mode & 0o777 for path in private} == {0o600}
    files = {path for path in tmp_path.rglob("*") if path.is_file()}
    assert {path for path in files if b"PRIVATE" in path.read_bytes()} == private

    authority, server = map(_certificate, (made.authority, made.server))
    server.verify_directly_issued_by(authority)
    derived = load_ssh_private_key(key.read_bytes(), None).public_key()
    assert derived == load_ssh_public_key(public.read_bytes())


def _certificate(path: Path) -> Certificate:
    return load_pem_x509_certificate(path.read_bytes())


STOPPED_AT_THE_START = """
import signal, sys, time
from pathlib import Path
from flr.flower.local.processes import Group, Reaper

signal.signal(signal.SIGINT, signal.default_int_handler)
group = Group(Reaper(), {}, Path(sys.argv[1]))
for _ in range(20):
    try:
        group.add(["/bin/sh", "-c", "kill -INT $PPID; exec sleep 60"], Path(sys.argv[1]) / "log")
        time.sleep(60)
    except KeyboardInterrupt:
        assert group.running, "a process was started that nobody ends"
        group.kill()
"""


def test_ctrl_c_while_a_process_starts_leaves_none_behind(tmp_path):
    subprocess.run([sys.executable, "-c", STOPPED_AT_THE_START, str(tmp_path)], check=True)
