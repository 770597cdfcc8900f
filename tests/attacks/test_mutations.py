"""Spoiled configs, data, runs and models through the commands: never a traceback, a hang or 2 GB.

CI tries a few of each; all of them: `pytest -m attack --tries 1000 tests/attacks -s`.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import mmap
import random
import shutil
import signal
import struct
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mutations import spoil
from PIL import Image
from tally import Tally
from toys import StoppedError

import flr
from flr.cli.main import main

SAMPLE = 12
HANGS_AFTER = 120  # seconds; what is meant to end does so in one
TOO_MUCH = 2 << 30  # bytes
CODES = {0, 1, 2, 3, 4, 5}

CONFIG = """\
seed = 1
rounds = 2
method = "flr"
workers = 1
[data]
{data}
[partition]
kind = "iid"
clients = 4
[noise]
kind = "symmetric"
floor = 0.3
[train]
model = {{ name = "mlp", hidden = 8 }}
epochs = 1
batch = 10
participation = 0.5
"""
DIGITS = 'name = "digits"\ntrain = 100\ntest = 20'


class HangError(BaseException):
    """It takes too long; no handler may hide it."""


@dataclass(frozen=True)
class Target:
    """A folder, the files in it that are spoiled, and the commands that read them."""

    folder: Path
    files: tuple[str, ...]
    commands: Callable[[Path], list[list[Any]]]

    def unsealed(self, copy: Path, name: str, draw: random.Random) -> None:
        """Mostly nothing vouches for a run's files, so that what is in them is read."""
        if name != "run.json" and draw.random() < 0.7:
            (copy / "run.json").unlink(missing_ok=True)


def config(folder: Path, data: str, **more: str) -> Path:
    text = CONFIG.format(data=data) + "".join(f"[{k}]\n{v}\n" for k, v in more.items())
    (folder / "c.toml").write_text(text)
    return folder / "c.toml"


def arrays(rng: np.random.Generator) -> dict[str, Any]:
    y = np.arange(60) % 3
    return {"x": rng.random((60, 5), dtype=np.float32) + y[:, None], "y": y}


def run_of(folder: Path, out: Path, stop: int | None = None) -> None:
    """A run with npz data, finished or stopped after a round."""

    def end(metrics: dict[str, Any]) -> None:
        if metrics["round"] == stop:
            raise StoppedError

    with contextlib.suppress(StoppedError):
        flr.run(config(folder, f'name = "npz"\npath = "{folder / "d.npz"}"'), out=out, on_round=end)


@pytest.fixture(scope="module")
def targets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Target]:
    root, rng = tmp_path_factory.mktemp("targets"), np.random.default_rng(0)
    data = root / "base"
    data.mkdir()
    np.savez(data / "d.npz", **arrays(rng))
    run_of(data, data / "run")
    run_of(data, data / "stopped", 2)
    found = {"config": Target(root / "config", ("c.toml",), lambda at: [["check", at / "c.toml"]])}
    found["config"].folder.mkdir()
    config(root / "config", DIGITS)
    found |= {name: make(root / name, rng, data) for name, make in DATA.items()}
    for name, commands in RUNS.items():
        folder = Path(
            shutil.copytree(data / ("stopped" if name == "stopped" else "run"), root / name)
        )
        files = tuple(str(p.relative_to(folder)) for p in folder.rglob("*") if _is_read(p))
        found[name] = Target(folder, files, commands(data))
    (root / "model").mkdir()
    shutil.copy(data / "run" / "model.safetensors", root / "model")
    found["model"] = Target(
        root / "model",
        ("model.safetensors",),
        lambda at: [["predict", at / "model.safetensors", data / "d.npz", "--out", at / "p.csv"]],
    )
    return found


def _is_read(path: Path) -> bool:
    return path.is_file() and path.suffix in (".json", ".jsonl", ".toml", ".safetensors")


def data_npz(folder: Path, rng: np.random.Generator, base: Path) -> Target:
    folder.mkdir()
    np.savez_compressed(folder / "d.npz", **arrays(rng))

    def commands(at: Path) -> list[list[Any]]:
        checked = config(at, f'name = "npz"\npath = "{at / "d.npz"}"')
        return [["check", checked], ["evaluate", base / "run", at / "d.npz"]]

    return Target(folder, ("d.npz",), commands)


def data_csv(folder: Path, rng: np.random.Generator, base: Path) -> Target:
    folder.mkdir()
    rows = [
        f"{a:.3f},{b:.3f},{'abc'[k % 3]},s{k % 4}" for k, (a, b) in enumerate(rng.random((60, 2)))
    ]
    (folder / "d.csv").write_text("\n".join(["u,v,label,site", *rows, ""]))

    def commands(at: Path) -> list[list[Any]]:
        return [["check", config(at, f'name = "csv"\npath = "{at / "d.csv"}"\nsite = "site"')]]

    return Target(folder, ("d.csv",), commands)


def data_png(folder: Path, rng: np.random.Generator, base: Path) -> Target:
    names = []
    for k in range(24):
        name = f"d/{'ab'[k % 2]}/{k}.png"
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 255, (8, 8, 3), dtype=np.uint8)).save(folder / name)
        names.append(name)

    def commands(at: Path) -> list[list[Any]]:
        return [["check", config(at, f'name = "folder"\npath = "{at / "d"}"')]]

    return Target(folder, tuple(names), commands)


def data_idx(folder: Path, rng: np.random.Generator, base: Path) -> Target:
    folder.mkdir()
    names = []
    for part, n in (("train", 60), ("t10k", 20)):
        pixels, labels = rng.integers(0, 255, (n, 28, 28), dtype=np.uint8), np.arange(n) % 10
        for kind, head, content in (
            ("images-idx3", struct.pack(">4I", 0x803, n, 28, 28), pixels),
            ("labels-idx1", struct.pack(">2I", 0x801, n), labels.astype(np.uint8)),
        ):
            names.append(f"{part}-{kind}-ubyte.gz")
            (folder / names[-1]).write_bytes(gzip.compress(head + content.tobytes()))

    def commands(at: Path) -> list[list[Any]]:
        return [["check", config(at, f'name = "mnist"\npath = "{at}"')]]

    return Target(folder, tuple(names), commands)


def scenario(folder: Path, rng: np.random.Generator, base: Path) -> Target:
    folder.mkdir()
    shutil.copy(base / "run" / "scenario.safetensors", folder / "s.safetensors")

    def commands(at: Path) -> list[list[Any]]:
        text = f'rounds = 1\n[data]\nname = "npz"\npath = "{base / "d.npz"}"\n'
        text += f'[scenario]\npath = "{at / "s.safetensors"}"\n'
        (at / "c.toml").write_text(text)
        return [["check", at / "c.toml"]]

    return Target(folder, ("s.safetensors",), commands)


DATA = {"npz": data_npz, "csv": data_csv, "png": data_png, "idx.gz": data_idx, "scenario": scenario}
RUNS: dict[str, Callable[[Path], Callable[[Path], list[list[Any]]]]] = {
    "stopped": lambda _: lambda at: [["resume", at]],
    "compared": lambda base: lambda at: [["compare", at, base / "run"], ["compare", at]],
    "audited": lambda _: lambda at: [["audit", at, "--client", 0]],
    "resumed": lambda _: lambda at: [["resume", at]],
}


@contextlib.contextmanager
def bounded() -> Iterator[Callable[[], int]]:
    """Ends what hangs; tells the most memory that was taken."""

    def hang(*_: object) -> None:
        raise HangError

    before = signal.signal(signal.SIGALRM, hang)
    signal.alarm(HANGS_AFTER)
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    try:
        yield peak
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def peak() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))


def test_the_most_memory_that_was_taken_is_seen():
    size = 64 << 20
    with bounded() as most:
        before = most()
        with mmap.mmap(-1, size) as taken:  # of the system: an allocator may have room left
            for start in range(0, size, mmap.PAGESIZE):
                taken[start] = 1
        assert most() >= before + size // 2
    with bounded() as most:
        assert most() < before + size // 2, "of each try by itself"


def call(command: list[Any], monkeypatch: pytest.MonkeyPatch) -> str:
    """What a command did wrong; mostly nothing."""
    monkeypatch.setattr(sys, "argv", ["flr", *map(str, command)])
    out, err = io.StringIO(), io.StringIO()
    with bounded() as most, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as stop:
            if stop.code is not None and stop.code not in CODES:
                return f"exit {stop.code}"
        except HangError:
            return "hang"
        except BaseException as error:  # noqa: BLE001 - whatever it is, a user would see it
            return f"traceback {type(error).__name__}: {str(error)[:200]}"
    if "Traceback" in err.getvalue():
        return "traceback in what it says"
    if "\x1b[2J" in out.getvalue() + err.getvalue():
        return "an escape reached the terminal"
    return "too much memory" if most() > TOO_MUCH else ""


Look = Callable[[Path], str]  # what is wrong with a folder after the commands


def attack(
    name: str, target: Target, tries: int, tmp_path: Path, patch: Any, look: Look | None = None
) -> None:
    tally = Tally(f"mutated files, {name}")
    for seed in range(tries):
        draw = random.Random(f"{name} {seed}")  # noqa: S311
        copy = Path(shutil.copytree(target.folder, tmp_path / "copy"))
        file = draw.choice(target.files)
        target.unsealed(copy, file, draw)
        how = spoil(copy / file, draw)
        problems = [call(command, patch) for command in target.commands(copy)]
        problems += [look(copy)] if look else []
        found = "; ".join(filter(None, problems))
        tally.lose(f"{name} {seed}, {how}: {found}") if found else tally.survived()
        shutil.rmtree(copy)
    tally.finish()


NAMES = ["config", *DATA, *RUNS, "model"]


@pytest.mark.parametrize("name", NAMES)
def test_a_sample_of_spoiled_files_is_refused_in_words(name, targets, tmp_path, monkeypatch):
    attack(name, targets[name], SAMPLE, tmp_path, monkeypatch)


@pytest.mark.attack
@pytest.mark.parametrize("name", NAMES)
def test_no_spoiled_file_gives_a_traceback(name, targets, tmp_path, monkeypatch, tries):
    attack(name, targets[name], tries, tmp_path, monkeypatch)
