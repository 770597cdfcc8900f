"""What the attacks share: faults at a chosen file operation and disks that forget."""

from __future__ import annotations

import errno
import multiprocessing
import os
import shutil
import signal
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import toys

import flr
from flr.core import seal
from flr.core.arrays import canonical_json, write_atomically
from flr.engine.fork_server import main_module_hidden
from flr.report import plots
from flr.simulation.api import Run

_CHANGES = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.chmod", "os.truncate"}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
PRELOADED = ["faults", "toys", "flr.engine.pool", "torch._dynamo", "sklearn.datasets"]
_NEEDS_ROOM = {"os.mkdir", "open", "fsync"}

Before = Callable[[int, str], None]  # gets the number and the name of an operation that is to come


@contextmanager
def before_each_change(folder: Path, act: Before) -> Iterator[None]:
    """Calls `act` before each operation that changes something below a folder.

    Between the opening of a file and its first byte there is one too (`os.fdopen`), and one at
    each sync. Python keeps audit hooks for good, so this one is made idle at the end.
    """
    active, number, real = [True], [0], os.fsync
    inside, one = threading.local(), threading.Lock()  # many files are synced at a time

    def act_on(path: object, what: str) -> None:
        place = _place(path)
        if (place == folder or folder in place.parents) and not getattr(inside, "act", False):
            with one:
                number[0] += 1
                inside.act = True  # what `act` itself does is not counted
                try:
                    act(number[0], what)
                finally:
                    inside.act = False

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if active and (event in _CHANGES or (event == "open" and args[2] & _WRITING)):
            act_on(args[1] if event == "os.rename" else args[0], event)

    def fsync(handle: int) -> None:
        if active:
            act_on(handle, "fsync")
        real(handle)

    sys.addaudithook(hook)
    os.fsync = fsync
    try:
        yield
    finally:
        os.fsync = real
        active.clear()


def _place(path: object) -> Path:
    if isinstance(path, int):
        with suppress(OSError):
            return Path(f"/proc/self/fd/{path}").readlink()
        return Path()
    return Path(os.path.abspath(os.fsdecode(path)))  # type: ignore[call-overload] # noqa: PTH100


def die_at(k: int) -> Before:
    """SIGKILL before the k-th operation."""

    def act(number: int, what: str) -> None:
        if number == k:
            os.kill(os.getpid(), signal.SIGKILL)

    return act


def full_from(k: int) -> Before:
    """No room on the disk from the k-th operation on."""

    def act(number: int, what: str) -> None:
        if number >= k and what in _NEEDS_ROOM:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    return act


def count_changes(method: str, out: Path) -> int:
    """How many operations an undisturbed run has."""
    seen = [0]

    def act(number: int, what: str) -> None:
        seen[0] = number

    with before_each_change(out, act):
        toys.train(method, out)
    return seen[0]


def start(target: Callable[..., None], *args: Any) -> Any:
    """A function of this folder in a child of a fork server, which has imported all it needs."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    child = context.Process(target=target, args=args)
    with main_module_hidden():  # that of pytest, which each child would import
        child.start()
    return child


def go_on(out: Path, method: str, begun: Path, workers: int = 1) -> Run:
    """Resumes a run, or starts one that had not begun; notes the rounds that end."""

    def note(metrics: dict[str, Any]) -> None:
        with begun.open("a") as file:
            file.write(f"{metrics['round']}\n")

    with drawn_once(begun.parent / "pictures"):
        if (out / "config.toml").exists():
            return flr.resume(out, on_round=note, workers=workers)
        return flr.run(toys.settings(method, workers=workers), out=out, on_round=note)


@contextmanager
def drawn_once(pictures: Path) -> Iterator[None]:
    """Takes the picture of a run from an earlier one with the same numbers, and writes it alike.

    To draw it takes most of the time of these small runs, and touches no file.
    """
    real = plots.curves

    def curves(metrics: Any, path: Path, title: str) -> None:
        shown = [[m["round"], m["accuracy"], m.get("memorization")] for m in metrics]
        picture = pictures / seal.sha256(canonical_json([title, shown]).encode())
        if picture.exists():
            write_atomically(path, picture.read_bytes())
            return
        real(metrics, path, title)
        write_atomically(picture, path.read_bytes())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plots, "curves", curves)
        yield


def go_on_and_die(out: Path, method: str, begun: Path, k: int) -> None:
    """In a child: the same, killed before the k-th file operation."""
    with before_each_change(out, die_at(k)):
        go_on(out, method, begun)


def names_in(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def what_is_wrong(done: Run, whole: Run, begun: Path) -> str:
    """How a run that was disturbed differs from one that was not; mostly in nothing.

    When a round ends, the one before it has its checkpoint: it is never trained again.
    """
    rounds = [int(line) for line in begun.read_text().split()]
    again = [b for a, b in pairwise(rounds) if b < a]
    left, gone = names_in(done.folder) - names_in(whole.folder), names_in(whole.folder)
    gone -= names_in(done.folder)
    problems = {
        "other bits": toys.bits(done) != toys.bits(whole),
        f"rounds {rounds}": bool(again) or [m["round"] for m in done.metrics] != ALL_ROUNDS,
        f"left behind {sorted(left)}": bool(left),
        f"missing {sorted(gone)}": bool(gone),
    }
    return ", ".join(name for name, found in problems.items() if found)


ALL_ROUNDS = list(range(1, toys.ROUNDS + 1))


class CutError(BaseException):
    """The lights go out; no handler may save anything."""


class Disk:
    """Remembers what was synced: the bytes of files, and which names a folder had.

    Files stay open, so that no later one gets the number (inode) of one that was deleted.
    """

    def __init__(self, last: int = 0) -> None:
        self.files: dict[int, bytes] = {}
        self.folders: dict[Path, dict[str, int]] = {}
        self.held: dict[int, int] = {}
        self.syncs, self.last, self.dark = 0, last, False

    def fsync(self, handle: int) -> None:
        self.syncs += 1
        if self.dark or self.syncs == self.last:
            self.cut()
        path, found = Path(f"/proc/self/fd/{handle}").resolve(), os.fstat(handle)
        if stat.S_ISDIR(found.st_mode):
            self.folders[path] = {entry.name: entry.inode() for entry in os.scandir(path)}
            for entry in path.iterdir():
                self._hold(entry)
        else:
            self.files[found.st_ino] = path.read_bytes()
            self._hold(path)

    def _hold(self, path: Path) -> None:
        with suppress(OSError):
            number = path.stat().st_ino
            if number not in self.held:
                self.held[number] = os.open(path, os.O_PATH)

    def cut(self) -> None:
        """From now on nothing reaches the disk."""
        self.dark = True
        raise CutError

    def after_the_cut(self, folder: Path, torn: bool) -> None:
        """Puts a folder into the state that the disk has: files that were not synced are empty."""
        inodes = {path.stat().st_ino: path for path in folder.rglob("*")}
        kept = {
            path.relative_to(folder) / name: inode
            for path, names in self.folders.items()
            if path == folder or folder in path.parents
            for name, inode in names.items()
        }
        content = {}
        for name, inode in kept.items():
            here = inodes.get(inode)
            if (here is not None and here.is_dir()) or folder / name in self.folders:
                continue
            lost = b"" if here is None or not torn else here.read_bytes()[::-1]
            content[name] = self.files.get(inode, lost)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for name, data in content.items():
            if all(parent in kept for parent in list(name.parents)[:-1]):
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_bytes(data)
        self.close()

    def close(self) -> None:
        for handle in self.held.values():
            os.close(handle)
        self.held.clear()


def run_until_cut(method: str, out: Path, begun: Path, k: int, torn: bool) -> None:
    """A run until the power goes before the k-th file operation."""
    disk = Disk()

    def act(number: int, what: str) -> None:
        if number == k:
            disk.cut()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", disk.fsync)
        try:
            with before_each_change(out, act):
                go_on(out, method, begun)
        except CutError:
            disk.after_the_cut(out, torn)
