"""Every name in a run folder as a link to somebody's files: nothing behind a link changes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tally import Tally
from toys import train_until

import flr
from flr.core.errors import FlrError


def content(folder: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


def attack(tmp_path: Path, every: int) -> None:
    """Each name in turn leads to a copy of what it was, or to other files."""
    tally, stopped = Tally("symlinks in a run folder"), tmp_path / "stopped"
    train_until("flr", stopped, 3)
    for number, path in enumerate(sorted(stopped.rglob("*"))):
        if number % every:
            continue
        for same in (True, False):
            home, run = tmp_path / "home", Path(shutil.copytree(stopped, tmp_path / "run"))
            place = run / path.relative_to(stopped)
            home.mkdir()
            shutil.move(place, home / "mine")
            if not same and (home / "mine").is_file():
                (home / "mine").write_text("mine\n")
            place.symlink_to(home / "mine")
            before, problem = content(home), ""
            try:
                flr.resume(run)
            except (FlrError, OSError):
                pass  # refused
            except Exception as error:  # noqa: BLE001 - whatever it is, a user would see it
                problem = f"traceback {type(error).__name__}: {error}"
            if content(home) != before:
                problem = "what is behind the link has changed"
            what = f"{path.relative_to(stopped)}, {'a copy' if same else 'other files'}: {problem}"
            tally.lose(what) if problem else tally.survived()
            shutil.rmtree(home)
            shutil.rmtree(run)
    tally.finish()


def test_a_sample_of_links_is_not_followed(tmp_path):
    attack(tmp_path, 3)


@pytest.mark.attack
def test_no_link_is_followed(tmp_path):
    attack(tmp_path, 1)
