"""Nothing is imported from somebody else's run folder; one's own needs no word."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import flr
from flr.config import own_runs
from flr.core import arrays
from flr.core.errors import DataError

MODULE = """
from pathlib import Path
from flr.models.networks import mlp
Path("imported").touch()
def net(input_shape, classes, width=8):
    return mlp(input_shape, classes, hidden=width)
"""
CONFIG = """rounds = 1
workers = 1
data = { name = "digits", train = 60, test = 20 }
partition = { kind = "iid", clients = 3 }
train = { model = "theirs:net", epochs = 1 }
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run folder that was made here; its module is forgotten again."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    Path("theirs.py").write_text(MODULE)
    Path("c.toml").write_text(CONFIG)
    folder = flr.run("c.toml", out=tmp_path / "r").folder
    forget()
    return folder


@pytest.fixture
def foreign(own: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The same folder, read by another user."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "another"))
    return own


def forget() -> None:
    sys.modules.pop("theirs", None)
    Path("imported").unlink(missing_ok=True)


COMMANDS = [
    ("resume", "r"),
    ("audit", "r"),
    ("check", "r/config.toml"),
    ("run", "r/config.toml", "--out", "again"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: c[0])
def test_somebody_elses_code_waits_for_trust(command, cli, foreign):
    seen = cli(*command)
    assert seen.code == 4
    assert "theirs:net" in seen.message
    assert "--trust" in seen.message
    assert not Path("imported").exists()
    assert cli(*command, "--trust").code == 0
    assert Path("imported").exists()


@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: c[0])
def test_ones_own_folder_needs_no_word(command, cli, own):
    assert cli(*command).code == 0


def test_a_comparison_imports_nothing(cli, foreign):
    assert cli("compare", "r").code == 0
    assert not Path("imported").exists()


def test_a_backbone_inside_a_model_is_code_too(own, foreign, cli):
    text = (own / "config.toml").read_text()
    inside = 'model = { name = "backbone", backbone = "theirs:net" }'
    (own / "config.toml").write_text(text.replace('model = "theirs:net"', inside))
    (own / "run.json").unlink()
    for command in COMMANDS:
        seen = cli(*command)
        assert (seen.code, "--trust" in seen.message) == (4, True)
    assert not Path("imported").exists()


def test_a_model_file_of_ones_own_folder_names_no_other_code(own):
    """A folder that was lent comes back with its seal: that is for the code that was run."""
    Path("evil.py").write_text("from pathlib import Path\nPath('imported').touch()\n")
    weights, meta = arrays.load(own / "model.safetensors")
    arrays.save(own / "model.safetensors", weights, {**meta, "model": {"name": "evil:net"}})
    (own / "run.json").unlink()
    with pytest.raises(DataError, match=r"evil:net.*--trust"):
        flr.Run(own).model()
    assert not Path("imported").exists()


READS: list[Callable[[flr.Run], object]] = [lambda run: run.config, lambda run: run.model()]


@pytest.mark.parametrize("read", READS, ids=["config", "model"])
def test_python_has_the_same_rule(read, foreign, own):
    with pytest.raises(DataError, match="trust=True"):
        read(flr.Run(foreign))
    assert not Path("imported").exists()
    read(flr.Run(foreign, trust=True))


def test_a_seal_is_for_the_code_that_was_run(own):
    text = (own / "config.toml").read_text()
    (own / "config.toml").write_text(text.replace("rounds = 1", "rounds = 2"))
    assert own_runs.own_code(own) == {"theirs:net"}  # people change settings before they go on
    (own / "config.toml").write_text(text.replace("theirs:net", "others:net"))
    assert not own_runs.own_code(own)


def test_a_run_without_code_needs_no_secret(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    (tmp_path / "c.toml").write_text(CONFIG.replace("theirs:net", "mlp"))
    folder = flr.run(tmp_path / "c.toml", out=tmp_path / "r").folder
    assert not (tmp_path / "home" / "flr").exists()
    assert not (folder / own_runs.SEAL).exists()


def test_the_secret_is_for_its_owner_only(own, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    own_runs.seal(own, flr.Run(own, trust=True).config)
    (file,) = (tmp_path / "home" / "flr").iterdir()
    assert file.stat().st_mode & 0o077 == 0
