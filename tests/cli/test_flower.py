"""`flr flower`: what a user sees, also where Flower is not installed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from toys import HEARS_CTRL_C

WITHOUT_FLOWER = """
import sys

class Nowhere:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("flwr", "ray"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Nowhere())
from flr.cli.main import main
main()
"""


def without_flower(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT_FLOWER, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("words", [("init", "wards"), ("check", "wards"), ("up",)])
def test_without_flower_every_command_says_how_to_get_it(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = without_flower("flower", *words)
    assert done.returncode == 3
    assert "Expected Flower" in done.stderr
    assert "No module named 'flwr'" in done.stderr
    assert 'pip install "flr[flower]"' in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_rest_does_without_flower():
    for words in (("flower", "--help"), ("list", "methods")):
        done = without_flower(*words)
        assert done.returncode == 0, done.stderr


def test_an_app_is_made_and_checked(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli("flower", "init", "wards").code == 0
    checked = cli("flower", "check", "wards", "--run-config", 'method="fedavg" rounds=7')
    assert checked.code == 0
    assert "wards is fine: fedavg, 7 rounds on digits" in checked.out


@pytest.mark.parametrize(
    ("words", "code", "part"),
    [
        (["init"], 2, "DIR"),
        (["init", "full"], 4, "full is a folder that holds mine.txt"),
        (["init", "9"], 3, 'got "9"'),
        (["check", "gone"], 4, "Expected a Flower app in gone"),
        (["check", "wards", "-c", "round=1"], 3, 'Did you mean "rounds"?'),
        (["check", "wards", "-c", "flower.wait=-1"], 3, "flower.wait"),
        (["check", "wards", "-c", "rounds=5 lr 0.1"], 3, '"lr 0.1" is no KEY=VALUE'),
        (["up", "--sites", "0"], 2, "sites"),
        (["up", "--method", "frl"], 3, 'Did you mean "flr"?'),
        (["up", "--out", "full"], 4, "mine.txt"),
    ],
)
def test_mistakes_have_one_clear_message(words, code, part, cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cli("flower", "init", "wards")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    result = cli("flower", *words)
    assert result.code == code
    assert part in result.message
    assert "Traceback" not in result.err + result.out
    assert sorted(tmp_path.rglob("*")) == before


def in_place(tmp_path: Path, *words: str) -> subprocess.Popen[str]:
    """`flr flower up`, with all that it makes and starts marked by the folder."""
    (tmp_path / "tmp").mkdir()
    return subprocess.Popen(
        [sys.executable, "-c", HEARS_CTRL_C, "flower", "up", *words],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path / "tmp"), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def processes(tmp_path: Path) -> list[str]:
    """Those whose FLWR_HOME lies in the folder, whoever started them."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):  # it has just ended, or is somebody else's
            environment = (entry / "environ").read_bytes() if entry.name.isdecimal() else b""
            if f"FLWR_HOME={tmp_path}".encode() in environment:
                found.append((entry / "cmdline").read_text())
    return found


def test_up_runs_reports_and_leaves_nothing_else(tmp_path):
    with in_place(tmp_path, "--sites", "2", "--rounds", "1", "--out", "run") as command:
        out, err = command.communicate()
    assert command.returncode == 0, out + err
    assert "round 1/1  accuracy" in out
    assert f"Report: {tmp_path / 'run' / 'report.html'}" in out
    assert (tmp_path / "run" / "report.html").is_file()
    members = json.loads((tmp_path / "run" / "federation.json").read_text())
    assert members["sites"] == ["site-0", "site-1"]
    assert list((tmp_path / "tmp").glob("flr-*")) == []
    assert processes(tmp_path) == []


def test_up_stopped_by_ctrl_c_ends_everything(tmp_path):
    with in_place(tmp_path, "--sites", "1", "--rounds", "99") as command:
        assert command.stdout is not None
        while not any("flower-supernode" in text for text in processes(tmp_path)):
            assert command.poll() is None
            time.sleep(0.1)
        command.send_signal(signal.SIGINT)
        out, err = command.communicate()
    assert command.returncode == 130, out + err
    assert "all SuperNodes have ended" in out
    assert "Traceback" not in err
    assert list((tmp_path / "tmp").glob("flr-*")) == []
    assert processes(tmp_path) == []
