"""Run folders: where they go, and that one process at a time works in one."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import chain, count
from pathlib import Path

from filelock import FileLock, Timeout

from flr.config import Config, own_runs
from flr.core import seal
from flr.core.arrays import sync_to_disk
from flr.core.errors import DataError
from flr.simulation import run_record

_FEDERATION = ("federation.json", "live.html")
_NAMES = (*run_record.FIXED, *run_record.RESULTS, seal.RECORD, own_runs.SEAL, *_FEDERATION)
# what a kill leaves of a run's files; nothing else is cleared away
_HALF_WRITTEN = re.compile(rf"\.(?:{'|'.join(map(re.escape, _NAMES))})\.[a-z0-9_]{{8}}")


@contextmanager
def own_folder(config: Config) -> Iterator[Path]:
    """Where a run goes that was not told where: a new folder, however many start at once.

    One in which nothing was begun is taken away again.
    """
    for path in _numbered(Path("runs") / f"{config.label}-{config.seed}"):
        try:
            path.mkdir(parents=True)
            break
        except FileExistsError:
            if path.parent.is_dir():
                continue
            raise
    try:
        yield path
    finally:
        for folder in (path, path.parent):
            with suppress(OSError):
                folder.rmdir()  # which an empty one alone allows


def new_folder(out: Path) -> Path:
    """Makes the folder of a new run; never one that holds something else."""
    _refuse_other_bytes(out.resolve())
    refuse_other_runs(out)
    try:
        out.mkdir(parents=True, exist_ok=True)
        for parent in (out.resolve().parent, out.resolve().parent.parent):
            sync_to_disk(parent)  # `runs` may be new, too
    except OSError as error:
        raise DataError(
            f"Expected to make a folder for the run at {out}; the system says: {error.strerror}. "
            "Choose another --out."
        ) from None
    return out


def _refuse_other_bytes(out: Path) -> None:
    """Safetensors opens no file whose path is not UTF-8, so the run would end when it reads one."""
    try:
        str(out).encode()
    except UnicodeEncodeError:
        raise DataError(
            f"Expected a folder for the run whose path is UTF-8; {os.fsencode(out)!r} is not. "
            "Choose another --out, or rename the folder it lies in."
        ) from None


def refuse_other_runs(out: Path) -> None:
    """A start that was cut short leaves no config and may be tried again."""
    if (out / "config.toml").exists():
        raise DataError(
            f"Expected a new folder for the run; {out} already holds one. "
            f"Go on with it (`flr resume {out}`), or choose another --out."
        )
    if out.is_dir():
        others = [p.name for p in out.iterdir() if not p.name.startswith((".", "scenario."))]
        if others:
            raise DataError(
                f"Expected a new or empty folder for the run; {out.resolve()} holds "
                f"{', '.join(sorted(others)[:3])}. Choose another --out."
            )


def first_free(base: Path) -> Path:
    """The path itself, or the first of base-2, base-3, ... that does not exist."""
    return next(path for path in _numbered(base) if not path.exists())


def _numbered(base: Path) -> Iterator[Path]:
    return chain([base], (base.with_name(f"{base.name}-{number}") for number in count(2)))


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One process at a time in a run folder; it clears away what a killed one left half-written."""
    try:
        lock = FileLock(folder / ".lock").acquire(timeout=0)
    except Timeout:
        raise DataError(
            f"Expected {folder} to be free; another flr process is working in it. Wait for it to "
            f"end or stop it."
        ) from None
    with lock:
        for path in folder.glob(".*"):
            if _HALF_WRITTEN.fullmatch(path.name) and path.is_file() and not path.is_symlink():
                path.unlink()
        yield
