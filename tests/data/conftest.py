"""The publishers' files, unpacked once for all workers from the archives beside this checkout."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock

ARCHIVES = Path(__file__).resolve().parents[3] / "shared" / "data"


@pytest.fixture(scope="session")
def publisher(tmp_path_factory) -> Path:
    """A folder like $FLR_DATA: CIFAR-10 and CIFAR-100 (binary) and the CIFAR-N label files."""
    if not (ARCHIVES / "unpack.py").is_file():
        pytest.skip(f"the data sets are not beside this checkout ({ARCHIVES})")
    root = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent
    folder = root / "publisher"
    with FileLock(root / "publisher.lock"):
        if not (folder / "complete").exists():
            command = [sys.executable, ARCHIVES / "unpack.py", folder]
            subprocess.run(command, check=True, capture_output=True, timeout=300)
            (folder / "complete").touch()
    return folder
