"""Single bits flipped in every file that a run folder has; none may pass unseen.

The sample runs in CI; the whole attack with `pytest -m attack --tries 2000 tests/attacks -s`.
"""

from __future__ import annotations

import logging
import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tally import Tally
from toys import bits, train, train_until

import flr
from flr.core.errors import FlrError
from flr.report import run_records

SAMPLE = 20
# by flr; people see what is wrong with them
NOT_READ = {".lock", "report.html", "curves.png", "model-card.md"}

Read = Callable[[Path], str]  # the folder's results as bits


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A run that was stopped between two checkpoints, and the same when it is finished."""
    out = tmp_path_factory.mktemp("runs")
    train_until("flr", out / "stopped", 3)
    return out / "stopped", train("flr", out / "whole").folder


def resumed(folder: Path) -> str:
    return bits(flr.resume(folder))


def looked_at(folder: Path) -> str:
    """What a reader takes from a finished run: all that the commands read."""
    run = flr.Run(folder)
    run.model()
    compared = run_records.read_run(folder)
    return repr((bits(run), run.metrics, run.clients, compared.summary, compared.options))


def files(folder: Path) -> list[Path]:
    found = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return [path.relative_to(folder) for path in found if path.name not in NOT_READ]


def flip(path: Path, rng: random.Random) -> str:
    """Flips one bit; says where."""
    content = bytearray(path.read_bytes())
    place, bit = rng.randrange(len(content)), rng.randrange(8)
    content[place] ^= 1 << bit
    path.write_bytes(content)
    return f"{path.name} byte {place} bit {bit}"


def read_and_heard(
    copy: Path, read: Read, caplog: pytest.LogCaptureFixture
) -> tuple[str, set[str]]:
    """What a folder gives, and what was said to be wrong with it."""
    caplog.clear()
    found = read(copy)
    said = (r for r in caplog.records if r.name == "flr" and r.levelno >= logging.WARNING)
    return found, {record.getMessage() for record in said}


def attack(
    whole: Path, read: Read, names: Sequence[Path], tries: int, caplog, tmp_path: Path
) -> None:
    """Every file in turn, until so many bits were flipped."""
    rng, tally = random.Random(22), Tally(f"bit flips, {read.__name__}")  # noqa: S311
    untouched = Path(shutil.copytree(whole, tmp_path / "untouched"))
    expected, usual = read_and_heard(untouched, read, caplog)  # of a toy that has learned nothing
    assert not any(str(untouched) in said for said in usual), "it would be new in every copy"
    for number in range(tries):
        copy = Path(shutil.copytree(whole, tmp_path / "copy"))
        where = flip(copy / names[number % len(names)], rng)
        try:
            found, said = read_and_heard(copy, read, caplog)
            kind = "survived" if found == expected else "named" if said - usual else "silent"
        except FlrError:
            kind = "named"
        except Exception as error:  # noqa: BLE001 - whatever it is, it is counted
            kind = f"traceback {type(error).__name__}"
        if kind in ("survived", "named"):
            tally.survived(kind)
        else:
            tally.lose(f"{where}: {kind}")
        shutil.rmtree(copy)
    tally.finish()


def test_a_sample_of_flips_is_never_silent(folders, caplog, tmp_path):
    stopped, whole = folders
    attack(stopped, resumed, files(stopped), SAMPLE, caplog, tmp_path / "stopped")
    attack(whole, looked_at, files(whole), SAMPLE, caplog, tmp_path / "whole")


def test_a_run_that_was_stopped_ends_as_one_that_was_not(folders, tmp_path):
    stopped, whole = folders
    assert resumed(Path(shutil.copytree(stopped, tmp_path / "copy"))) == bits(flr.Run(whole))


@pytest.mark.attack
def test_no_flip_before_a_resume_is_silent(folders, caplog, tmp_path, tries):
    stopped, _ = folders
    attack(stopped, resumed, files(stopped), tries, caplog, tmp_path)


@pytest.mark.attack
def test_no_flip_in_a_finished_run_is_silent(folders, caplog, tmp_path, tries):
    _, whole = folders
    attack(whole, looked_at, files(whole), tries, caplog, tmp_path)
