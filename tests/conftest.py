"""The command line as a shell sees it, recorded goldens, and no skip in CI but for data."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

os.environ.setdefault("FLR_BITS", "portable")  # before torch: tests compute the same everywhere

from flr.cli.main import main

GOLDEN = Path(__file__).parent / "golden"
NO_DATA = "needs the CIFAR files"  # the one reason for which a test may be skipped in CI
BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"
CIFAR = ("cifar-10-batches-bin", "cifar-100-binary", "CIFAR-10_human.npz")


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Fixtures that live longer than a test keep no features in the user's cache folder either."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FLR_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache folder of this test alone, which starts empty."""
    folder = tmp_path / "own-cache"
    monkeypatch.setenv("FLR_CACHE", str(folder))
    return folder


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--tries", type=int, default=2000, help="faults that each attack makes")
    parser.addoption("--hostile-runs", type=int, default=20, help="on a real SuperLink")
    parser.addoption("--federation-kills", type=int, default=50, help="of Flower's processes")
    parser.addoption("--kills", type=int, default=200, help="how often an attack kills -9")


@pytest.fixture
def tries(request: pytest.FixtureRequest) -> int:
    """How many faults an attack makes (`pytest -m attack --tries N`)."""
    return int(request.config.getoption("--tries"))


@pytest.fixture(scope="session", autouse=True)
def own_secret(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What `flr` keeps for a user, tests keep for themselves."""
    os.environ["XDG_CONFIG_HOME"] = str(tmp_path_factory.mktemp("config"))


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
    """Reads `tests/golden/<name>.json`, numbers recorded from reference code."""

    def read(name: str) -> Any:
        return json.loads((GOLDEN / f"{name}.json").read_text())

    return read


@pytest.fixture(scope="session")
def publisher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """CIFAR and the CIFAR-N label files: $FLR_DATA, or unpacked once for all workers."""
    given = os.environ.get("FLR_DATA")
    if given and all((Path(given) / name).exists() for name in CIFAR):
        return Path(given)
    unpack = BESIDE / "unpack.py"
    if not unpack.is_file():
        pytest.skip(f"{NO_DATA}, in $FLR_DATA or beside the checkout ({BESIDE})")
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


# Packages of 200, 50 and 70 MB: what needs them is tested where they are installed.
_TESTS_OF = {
    "flwr_datasets": ["data/test_hugging_face.py", "scenario/test_flwr_datasets.py"],
    "mlflow": ["report/test_mlflow.py"],
    "wandb": ["report/test_wandb.py"],
}
collect_ignore = [
    path
    for package, paths in _TESTS_OF.items()
    for path in paths
    if importlib.util.find_spec(package) is None
]

_skipped: list[str] = []


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.skipped and NO_DATA not in str(report.longrepr):
        _skipped.append(f"{report.nodeid}: {report.longrepr}")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if os.environ.get("FLR_NO_SKIPS") and _skipped and session.exitstatus == 0:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if os.environ.get("FLR_NO_SKIPS"):
        for line in _skipped:
            terminalreporter.write_line(f"skipped in CI, where nothing may be: {line}")
