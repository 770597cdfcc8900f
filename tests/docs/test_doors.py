"""The three pages for beginners, typed in from top to bottom in an empty folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
INSTALL = "python3 -m venv"  # tests/test_release.py tries what is installed
TRIED_ELSEWHERE = ("flr flower up",)  # tests/flower/test_loopback.py


@pytest.fixture
def typed(tmp_path, blocks):
    """Runs the blocks of a door's page in an empty folder, with `flr` on the path."""
    place, folder = tmp_path / "bin", tmp_path / "empty"
    for made in (place, folder):
        made.mkdir()
    command = place / "flr"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m flr.cli.main "$@"\n')
    command.chmod(0o755)
    path = os.pathsep.join([str(place), str(Path(sys.executable).parent), os.environ["PATH"]])
    search = os.pathsep.join([str(ROOT / "src"), str(ROOT)])

    def run(page: str, files: dict[str, tuple[str, int]]) -> tuple[Path, str]:
        for name, (language, number) in files.items():
            (folder / name).write_text(blocks(page, language)[number])
        install, *rest = blocks(page, "sh")
        assert install.startswith(INSTALL)
        lines = "".join(rest).splitlines()
        script = "\n".join(line for line in lines if not line.startswith(TRIED_ELSEWHERE))
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=folder,
            env={**os.environ, "PATH": path, "PYTHONPATH": search, "COLUMNS": "80"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return folder, done.stdout

    return run


def test_compare_methods(typed):
    folder, said = typed("docs/start/compare-methods.md", {"experiment.toml": ("toml", 0)})
    for method in ("fedavg", "flr"):
        assert re.search(rf"^ {method} +3 ", said, re.M)
        assert (folder / "runs" / f"{method}-3" / "report.html").is_file()


def test_run_a_federation(typed):
    folder, said = typed("docs/start/run-a-federation.md", {})
    assert (folder / "my-federation" / "pyproject.toml").is_file()
    assert "Leaves the site" in said


def test_check_my_labels(typed):
    folder, said = typed("docs/start/check-my-labels.md", {"make_scans.py": ("python", 0)})
    assert "look wrong" in said
    assert (folder / "first-audit" / "audit.html").is_file()
