"""The files of `deploy/` in a generated app: what Flower's own programs make of them."""

from __future__ import annotations

import re
import shlex
from importlib import import_module
from pathlib import Path

import pytest

from flr.flower.new_app import front_door, write_app


@pytest.fixture(scope="module")
def deploy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_app(tmp_path_factory.mktemp("apps") / "wards") / "deploy"


def command(unit: Path) -> list[str]:
    (found,) = re.findall(r"^ExecStart=(.*)$", unit.read_text(), re.MULTILINE)
    words = shlex.split(found)
    return words[3:] if words[:3] == ["/opt/flr/bin/flr", "flower", "node"] else words[1:]


def test_flower_knows_the_options_of_the_superlinks_unit(deploy: Path) -> None:
    program = import_module("flwr.superlink.cli.flower_superlink")
    parser = program._parse_args_run_superlink()
    own = parser.parse_args(command(deploy / "flr-superlink.service"))
    assert own.host == "127.0.0.1", "its Control API is on the same port"
    assert own.enable_supernode_auth
    assert not own.insecure
    assert f"server 127.0.0.1:{own.port};" in (deploy / "nginx.conf").read_text()


def test_flower_knows_the_options_of_a_supernodes_unit(deploy: Path) -> None:
    program = import_module("flwr.supernode.cli.flower_supernode")
    parser = program._parse_args_run_supernode()
    own = parser.parse_args(command(deploy / "flr-supernode.service"))
    listens = re.search(r"listen (\d+) ssl;", (deploy / "nginx.conf").read_text())
    assert listens is not None
    assert own.superlink.endswith(f":{listens[1]}")
    assert own.auth_supernode_private_key
    assert not own.insecure


def test_the_units_report_nothing_and_start_again(deploy: Path) -> None:
    units = list(deploy.glob("*.service"))
    assert len(units) >= 2
    for unit in units:
        text = unit.read_text()
        assert "Restart=always" in text
        if "bin/flower-superlink" in text or "flr flower node" in text:
            assert "FLWR_TELEMETRY_ENABLED=0 FLWR_DISABLE_UPDATE_CHECK=1" in text


def test_the_tested_front_door_is_the_written_one(deploy: Path) -> None:
    written = front_door("9092", "127.0.0.1:8000", "/etc/flr", "127.0.0.1:8001")
    assert written == (deploy / "nginx.conf").read_text()


def test_the_waiting_room_stands_where_nginx_looks_for_it(deploy: Path) -> None:
    words = command(deploy / "flr-waiting-room.service")
    assert words[:2] == ["flower", "waiting-room"]
    given = dict(zip(words[2::2], words[3::2], strict=True))
    door = (deploy / "nginx.conf").read_text()
    assert f"server 127.0.0.1:{given['--port']};" in door
    assert f"server {given['--superlink']} backup;" in door, "rounds go on without it"
    link = command(deploy / "flr-superlink.service")
    for option in ("--ssl-ca-certfile", "--ssl-certfile", "--ssl-keyfile"):
        assert given[option] == link[link.index(option) + 1], "nginx asks both in the same way"


def test_flower_knows_the_options_of_all_printed_commands(deploy: Path, root: Path) -> None:
    """Not of those that only speak of a program, in a line of text."""
    programs = {
        "flower-superlink": ("superlink", "_parse_args_run_superlink"),
        "flower-supernode": ("supernode", "_parse_args_run_supernode"),
    }
    seen = 0
    for page in [deploy.parent / "README.md", *(root / "docs").rglob("*.md")]:
        for block in re.findall(r"```sh\n(.*?)```", page.read_text(), re.DOTALL):
            for line in block.replace("\\\n", " ").splitlines():
                words = shlex.split(line, comments=True)
                while words and re.match(r"[A-Z_]+=", words[0]):
                    words.pop(0)
                if words and words[0].startswith("flower-") and "--version" not in words:
                    part, parse = programs[words[0]]
                    program = import_module(f"flwr.{part}.cli.{words[0].replace('-', '_')}")
                    getattr(program, parse)().parse_args(words[1:])
                    seen += 1
    assert seen >= 6


def test_nothing_that_is_printed_opens_the_superlink(deploy: Path, root: Path) -> None:
    pages = [deploy.parent / "README.md", *(root / "docs").rglob("*.md")]
    for page in pages:
        for line in page.read_text().splitlines():
            assert not re.search(r"flower-superlink.*--host 0\.0\.0\.0", line), page
            if line.startswith("[superlink]"):
                pytest.fail(f"{page}: Flower has written such a table already")


@pytest.fixture(scope="module")
def root() -> Path:
    return Path(__file__).resolve().parents[2]
