"""The command line as a shell sees it, recorded goldens, and no skip in CI without a reason."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from flr.cli.main import main

SHARED = Path(__file__).resolve().parents[2] / "shared"


@dataclass(frozen=True)
class Result:
    """What a shell sees."""

    code: int
    out: str
    err: str

    @property
    def message(self) -> str:
        """Standard error on one line, whatever the width of the terminal."""
        return " ".join(self.err.split())


@pytest.fixture
def cli(monkeypatch, capsys) -> Callable[..., Result]:
    """`cli("run", "x.toml")`: the command line in this process, on a terminal of 80 columns."""

    def call(*args: object) -> Result:
        monkeypatch.setattr(sys, "argv", ["flr", *map(str, args)])
        monkeypatch.setenv("COLUMNS", "80")
        capsys.readouterr()
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
        seen = capsys.readouterr()
        return Result(code, seen.out, seen.err)

    return call


@pytest.fixture(scope="session")
def golden() -> Callable[[str], Any]:
    """Reads `../shared/golden/<name>.json`."""

    def read(name: str) -> Any:
        path = SHARED / "golden" / f"{name}.json"
        if not path.is_file():
            pytest.skip(f"the recorded goldens are not beside this checkout ({path})")
        return json.loads(path.read_text())

    return read


@pytest.fixture(scope="session")
def publisher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder like $FLR_DATA, unpacked once for all workers: CIFAR and the CIFAR-N label files."""
    unpack = SHARED / "data" / "unpack.py"
    if not unpack.is_file():
        pytest.skip(f"the data sets are not beside this checkout ({unpack.parent})")
    root = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent
    folder = root / "publisher"
    with FileLock(root / "publisher.lock"):
        if not (folder / "complete").exists():
            command = [sys.executable, str(unpack), str(folder)]
            subprocess.run(command, check=True, capture_output=True, timeout=300)
            (folder / "complete").touch()
    return folder


# tests that may be skipped in CI, each with its reason
ALLOWED_SKIPS: dict[str, str] = {}

_skipped: list[str] = []


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.skipped and report.nodeid not in ALLOWED_SKIPS:
        _skipped.append(f"{report.nodeid}: {report.longrepr}")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if os.environ.get("FLR_NO_SKIPS") and _skipped and session.exitstatus == 0:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if os.environ.get("FLR_NO_SKIPS"):
        for line in _skipped:
            terminalreporter.write_line(f"skipped in CI, where nothing may be: {line}")
