"""What a site keeps between tasks: immutable, versioned files that never leave it.

A version is named by the step that made it. Which version counts is decided by whoever runs the
federation, so a client that was dropped, refused or killed goes on from its last accepted version,
never from a half-made one.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import safetensors

from flr.core import arrays, seal
from flr.core.arrays import Arrays, sync_all, write_atomically
from flr.core.errors import DataError

log = logging.getLogger("flr")

# a version, its digest, and what a kill leaves of either: nothing else is ever deleted
_VERSION = re.compile(r"([0-9]+)\.(?:safetensors|sha256)")
_HALF_WRITTEN = re.compile(r"\.[0-9]+\.(?:safetensors|sha256)\.\w+")


@dataclass(frozen=True)
class StateFiles:
    """`folder/<site>/<step>.safetensors`."""

    folder: Path

    def path(self, site: int, version: int) -> Path:
        return self.folder / str(site) / f"{version}.safetensors"

    def read(self, site: int, version: int | None) -> Arrays:
        """The state of an accepted version; empty before the first."""
        return {} if version is None else arrays.load(self.path(site, version))[0]

    def has(self, site: int, version: int, digest: str = "") -> bool:
        """Whether a version is there and whole: what its digest says, where one is known."""
        path = self.path(site, version)
        try:
            if digest:
                return seal.digest_of(path) == digest
            with safetensors.safe_open(path, framework="pt"):
                return True
        except (safetensors.SafetensorError, OSError):
            return False

    def write(self, site: int, version: int, state: Arrays) -> str:
        """Keeps a new version beside the older ones; its digest is for the checkpoint.

        It reaches the disk with `sync`, before a checkpoint refers to it: not at every task.
        """
        data = arrays.pack(state)
        write_atomically(self.path(site, version), data)
        return seal.sha256(data)

    def sync(self, versions: Mapping[int, int]) -> None:
        """Has these versions survive a power cut."""
        files = [self.path(site, version) for site, version in versions.items()]
        folders = [path.parent for path in files]
        sync_all(files)
        sync_all([*folders, self.folder, self.folder.parent] if folders else [])

    def drop(self, site: int, version: int) -> None:
        """Forgets a version that nothing refers to."""
        path = self.path(site, version)
        if not (self.folder.is_symlink() or path.parent.is_symlink() or path.is_symlink()):
            path.unlink(missing_ok=True)

    def keep_only(self, versions: Mapping[int, set[int]]) -> None:
        """Forgets every other version; files that we have not made stay, and so do links."""
        for path in () if self.folder.is_symlink() else self.folder.glob("*/*"):
            site = path.parent
            if site.is_symlink() or path.is_symlink() or not re.fullmatch("[0-9]+", site.name):
                continue
            found = _VERSION.fullmatch(path.name)
            unknown = found and int(found[1]) not in versions.get(int(site.name), set())
            if unknown or _HALF_WRITTEN.fullmatch(path.name):
                path.unlink(missing_ok=True)


class VouchedStateFiles(StateFiles):
    """Keeps the digest of each version beside it: on a site of its own no checkpoint does."""

    def read(self, site: int, version: int | None) -> Arrays:
        """Refuses a version that is not what was written."""
        if version is not None and not self.has(site, version):
            raise DataError(
                f"Expected the state of step {version} in {self.path(site, version)}; it is gone "
                "or damaged. Bring the state-dir back from a copy, or start a new run."
            )
        return super().read(site, version)

    def has(self, site: int, version: int, digest: str = "") -> bool:
        """Whether a version is there and what the digest beside it says."""
        try:
            digest = digest or self._beside(site, version).read_text()
        except FileNotFoundError:
            log.warning("%s has no digest beside it; used unchecked", self.path(site, version))
        except (OSError, ValueError):
            return False
        return super().has(site, version, digest)

    def write(self, site: int, version: int, state: Arrays) -> str:
        """The digest first: no version counts without one. The server may rely on it at once."""
        data = arrays.pack(state)
        digest = seal.sha256(data)
        write_atomically(self._beside(site, version), digest, sync=True)
        write_atomically(self.path(site, version), data, sync=True)
        return digest

    def _beside(self, site: int, version: int) -> Path:
        return self.path(site, version).with_suffix(".sha256")


class NoState(StateFiles):
    """Keeps nothing from one task to the next."""

    def read(self, site: int, version: int | None) -> Arrays:
        return {}

    def write(self, site: int, version: int, state: Arrays) -> str:
        return ""
