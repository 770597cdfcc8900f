"""Where the recorded goldens are, and the rule that CI skips nothing without a listed reason."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

SHARED = Path(__file__).resolve().parents[2] / "shared"


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
