"""Single bits flipped in every file that a run folder or a site's state has; none may pass unseen.

The sample runs in CI; the whole attack with `pytest -m attack --tries 2000 tests/attacks -s`.
"""

from __future__ import annotations

import logging
import random
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from toys import bits, train, train_until

import flr
from flr.client.state import VouchedStateFiles
from flr.core import arrays
from flr.core.errors import FlrError
from flr.report import paired_runs

SAMPLE = 20
NOT_READ = {".lock", "report.html", "curves.png"}  # by flr; people see what is wrong with them

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
    compared = paired_runs.read_run(folder)
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


def attack(whole: Path, read: Read, expected: str, tries: int, caplog, tmp_path: Path) -> None:
    """Every file in turn, until so many bits were flipped."""
    rng, counts, lost = random.Random(22), Counter(), []  # noqa: S311
    names = files(whole)
    for number in range(tries):
        copy = Path(shutil.copytree(whole, tmp_path / "copy"))
        where = flip(copy / names[number % len(names)], rng)
        caplog.clear()
        try:
            same = read(copy) == expected
            named = any(r.name == "flr" and r.levelno >= logging.WARNING for r in caplog.records)
            kind = "survived" if same else "named" if named else "silent"
        except FlrError:
            kind = "named"
        except Exception as error:  # noqa: BLE001 - whatever it is, it is counted
            kind = f"traceback {type(error).__name__}"
        counts[kind] += 1
        if kind not in ("survived", "named"):
            lost.append(f"{where}: {kind}")
        shutil.rmtree(copy)
    print(  # noqa: T201 - what an attack is run for
        f"\nbit flips, {read.__name__}: tried {tries}, survived {counts['survived']}, "
        f"named {counts['named']}, lost {len(lost)}"
    )
    assert not lost


def test_a_sample_of_flips_is_never_silent(folders, caplog, tmp_path):
    stopped, whole = folders
    attack(stopped, resumed, bits(flr.Run(whole)), SAMPLE, caplog, tmp_path)
    attack(whole, looked_at, looked_at(whole), SAMPLE, caplog, tmp_path)


@pytest.mark.attack
def test_no_flip_before_a_resume_is_silent(folders, caplog, tmp_path, tries):
    stopped, whole = folders
    attack(stopped, resumed, bits(flr.Run(whole)), tries, caplog, tmp_path)


@pytest.mark.attack
def test_no_flip_in_a_finished_run_is_silent(folders, caplog, tmp_path, tries):
    _, whole = folders
    attack(whole, looked_at, looked_at(whole), tries, caplog, tmp_path)


def test_no_flip_in_a_sites_state_is_silent(folders, tmp_path):
    """Every bit of a state's file and of the digest beside it."""
    source = next((folders[1] / "checkpoint" / "state").glob("*/*.safetensors"))
    state = {name: value.flatten()[:40] for name, value in arrays.load(source)[0].items()}
    states = VouchedStateFiles(tmp_path)
    states.write(0, 1, state)
    for path in sorted((tmp_path / "0").iterdir()):
        content = path.read_bytes()
        for place in range(8 * len(content)):
            changed = bytearray(content)
            changed[place // 8] ^= 1 << place % 8
            path.write_bytes(changed)
            assert not states.has(0, 1), (path.name, place)
        path.write_bytes(content)
    assert states.has(0, 1)
