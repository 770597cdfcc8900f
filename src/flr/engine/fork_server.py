"""The process that workers are forked from, and the folder of its socket."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import sys
import tempfile
import types
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import forkserver, resource_tracker, util
from multiprocessing.process import current_process
from pathlib import Path

from flr.core.errors import ConfigError

_PREFIX = "flr-workers-"
_LONGEST = 107 - len(f"/{_PREFIX}12345678/listener-12345678")  # of a socket's path, in Linux


def prepare() -> None:
    """Starts it: it imports torch while data are read.

    It starts with Ctrl-C blocked, and so do the workers: only the main process handles it.
    """
    _use_own_folder()
    forkserver.set_forkserver_preload(["flr.engine.pool"])
    resource_tracker.ensure_running()  # started now: later it would unblock Ctrl-C again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        with main_module_hidden():
            forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def main_module_hidden() -> Iterator[None]:
    """Keeps multiprocessing from running the user's script again in another process."""
    real = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = real


def _use_own_folder() -> None:
    """Gives multiprocessing a folder that is gone after a kill, too: when the next run starts.

    Its own ones stay, as nobody can tell whether they are in use. Ours is locked by whoever uses
    it, and a lock ends with its process, however that ends.
    """
    config = current_process()._config  # type: ignore[attr-defined]  # no public way to choose it
    if config.get("tempdir"):
        return
    base = _base()
    for path in base.glob(f"{_PREFIX}*"):
        if not path.is_symlink() and path.is_dir() and path.stat().st_uid == os.getuid():
            _remove_if_unused(path)
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))
        handle = os.open(folder, os.O_RDONLY)
        fcntl.flock(handle, fcntl.LOCK_EX)
        if folder.exists():  # else somebody has taken it for a left one, before the lock
            break
        os.close(handle)
    config["tempdir"] = str(folder)
    util.Finalize(None, shutil.rmtree, args=(folder, True), exitpriority=-100)


def _remove_if_unused(folder: Path) -> None:
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return  # another process was faster
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    except OSError:
        return  # in use
    finally:
        os.close(handle)


def _base() -> Path:
    """Where temporary files go, unless a socket's path would be too long there."""
    wanted = Path(tempfile.gettempdir())
    for base in (wanted, Path("/tmp"), Path("/var/tmp")):  # noqa: S108 - mkdtemp makes it safe
        if len(os.fsencode(base)) <= _LONGEST and os.access(base, os.W_OK | os.X_OK):
            return base
    raise ConfigError(
        f"Expected a folder for the sockets of worker processes whose path has at most {_LONGEST} "
        f"bytes; {wanted} has {len(os.fsencode(wanted))}. Set TMPDIR to a shorter one, or "
        "workers = 1."
    )
