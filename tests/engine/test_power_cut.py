"""Power cuts, simulated: of a run folder only that is left which was synced to the disk."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import pytest
from toys import ROUNDS, bits, settings, train

import flr
from flr.engine import checkpoint


class CutError(BaseException):
    """The lights go out; no handler may save anything."""


class Disk:
    """Remembers what was synced: the bytes of files, and which names a folder had."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, last: int = 0) -> None:
        self.files: dict[int, bytes] = {}
        self.folders: dict[Path, dict[str, int]] = {}
        self.syncs, self.last = 0, last
        monkeypatch.setattr(os, "fsync", self.fsync)

    def fsync(self, handle: int) -> None:
        self.syncs += 1
        if self.syncs == self.last:
            raise CutError
        path, found = Path(f"/proc/self/fd/{handle}").resolve(), os.fstat(handle)
        if stat.S_ISDIR(found.st_mode):
            names = {entry.name: entry.inode() for entry in os.scandir(path)}
            self.folders[path] = names
        else:
            self.files[found.st_ino] = path.read_bytes()

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
        shutil.rmtree(folder)
        folder.mkdir()
        for name, data in content.items():
            if all(parent in kept for parent in list(name.parents)[:-1]):
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_bytes(data)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """An undisturbed run of a method that keeps client state."""
    return train("flr", tmp_path_factory.mktemp("whole") / "run")


def cut(out: Path, monkeypatch: pytest.MonkeyPatch, torn: bool, **when: int) -> Disk:
    """A run until the power goes: when a round is over, or at the k-th sync."""
    with monkeypatch.context() as patch:
        disk = Disk(patch, when.get("sync", 0))

        def stop(metrics):
            if metrics["round"] == when.get("round"):
                raise CutError

        try:
            flr.run(settings("flr"), out=out, on_round=stop)
        except CutError:
            disk.after_the_cut(out.resolve(), torn)
    return disk


@pytest.mark.parametrize("torn", [False, True])
@pytest.mark.parametrize("round", [1, 3])
def test_a_cut_loses_no_more_than_since_the_last_checkpoint(
    round, torn, whole, tmp_path, monkeypatch
):
    cut(tmp_path / "run", monkeypatch, torn, round=round)
    rounds = []
    done = flr.resume(tmp_path / "run", on_round=lambda metrics: rounds.append(metrics["round"]))
    assert rounds == list(range(round, ROUNDS + 1))
    assert bits(done) == bits(whole)


def test_a_cut_at_any_sync_gives_the_same_bits(whole, tmp_path, monkeypatch):
    total = cut(tmp_path / "all", monkeypatch, torn=False).syncs
    for sync in range(1, total + 1, 8):
        out = tmp_path / str(sync)
        cut(out, monkeypatch, torn=bool(sync % 2), sync=sync)
        again = (out / "config.toml").exists()
        done = flr.resume(out) if again else train("flr", out)
        assert bits(done) == bits(whole), sync


def test_a_finished_run_survives_as_a_whole(whole, tmp_path, monkeypatch):
    disk = cut(tmp_path / "run", monkeypatch, torn=False)
    disk.after_the_cut((tmp_path / "run").resolve(), torn=False)
    run = flr.Run(tmp_path / "run")
    assert bits(run) == bits(whole)
    assert len(run.metrics) == run.summary["rounds"] == ROUNDS
    kept = checkpoint.load_all(tmp_path / "run" / "checkpoint")
    assert len(kept) >= checkpoint.KEPT  # a cut may bring back what was deleted
