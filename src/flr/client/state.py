"""What a site keeps between tasks: immutable, versioned files that never leave it.

A version is named by the step that made it. Which version counts is decided by whoever runs the
federation, so a client that was dropped, refused or killed goes on from its last accepted version,
never from a half-made one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import safetensors

from flr.core import arrays
from flr.core.arrays import Arrays


@dataclass(frozen=True)
class StateFiles:
    """`folder/<site>/<step>.safetensors`."""

    folder: Path

    def path(self, site: int, version: int) -> Path:
        return self.folder / str(site) / f"{version}.safetensors"

    def read(self, site: int, version: int | None) -> Arrays:
        """The state of an accepted version; empty before the first."""
        return {} if version is None else arrays.load(self.path(site, version))[0]

    def has(self, site: int, version: int) -> bool:
        """Whether a version is there and whole."""
        try:
            with safetensors.safe_open(self.path(site, version), framework="pt"):
                return True
        except (safetensors.SafetensorError, OSError):
            return False

    def write(self, site: int, version: int, state: Arrays) -> None:
        """Keeps a new version beside the older ones."""
        arrays.save(self.path(site, version), state)

    def drop(self, site: int, version: int) -> None:
        """Forgets a version that nothing refers to."""
        self.path(site, version).unlink(missing_ok=True)

    def keep_only(self, versions: Mapping[int, set[int]]) -> None:
        """Forgets every version that is not among these."""
        for path in self.folder.glob("*/*"):
            known = path.parent.name.isdigit() and path.stem.isdigit()
            if not known or int(path.stem) not in versions.get(int(path.parent.name), set()):
                path.unlink(missing_ok=True)


class NoState(StateFiles):
    """Keeps nothing from one task to the next."""

    def read(self, site: int, version: int | None) -> Arrays:
        return {}

    def write(self, site: int, version: int, state: Arrays) -> None:
        return
