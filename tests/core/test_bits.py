"""Bits that travel: said before torch starts, recorded, and refused where it is too late."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

import flr
from flr.core import bits
from flr.core.errors import ConfigError

SAID = (bits.ASKED, *bits.SETTINGS, *bits.OTHERS)
SHORT = {"rounds": 2, "method": "fedavg", "train": {"epochs": 1}, "data": {"train": 100}}


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Another Python, whose torch has not started."""
    own = {
        k: v for k, v in os.environ.items() if k not in (bits.ASKED, *bits.SETTINGS, *bits.OTHERS)
    }
    return subprocess.run(
        [sys.executable, "-c", code], env=own | environment, capture_output=True, text=True
    )


def test_the_environment_decides_before_torch_starts():
    code = "import flr, torch; print(torch.backends.cpu.get_cpu_capability())"
    narrow = python(code, FLR_BITS="portable").stdout.strip()
    assert narrow not in bits.WIDER
    assert python(code, ATEN_CPU_CAPABILITY="avx2").stdout.strip() == narrow


def test_numpy_is_asked_as_well_unless_the_user_has_chosen():
    code = "import flr, os; print(os.environ.get('OPENBLAS_CORETYPE'))"
    asked = python(code, FLR_BITS="portable").stdout.strip()
    assert asked == ("Haswell" if bits._has_avx2() else "None")
    assert python(code).stdout.strip() == "None"
    own = python(code, FLR_BITS="portable", OPENBLAS_CORETYPE="Zen").stdout.strip()
    assert own == "Zen"


def test_too_late_is_said():
    late = "import torch; torch.backends.cpu.get_cpu_capability(); import flr"
    if python("import torch; print(torch.backends.cpu.get_cpu_capability())").stdout.strip() in (
        bits.WIDER
    ):
        assert "before Python starts" in python(late, FLR_BITS="portable").stderr
    else:
        assert python(late, FLR_BITS="portable").returncode == 0


def test_an_unknown_wish_is_named():
    assert "got 'fast'" in python("import flr", FLR_BITS="fast").stderr


def test_a_config_that_asks_in_vain_is_refused(tmp_path, monkeypatch):
    assert bits.now() == "portable"  # torch has read its settings: they may go for a moment
    monkeypatch.delenv("ATEN_CPU_CAPABILITY")
    with pytest.raises(ConfigError, match="FLR_BITS=portable"):
        flr.run({**SHORT, "bits": "portable"}, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_run_says_which_bits_it_has(tmp_path):
    flr.run({**SHORT, "bits": "portable"}, out=tmp_path / "run")
    (made,) = json.loads((tmp_path / "run" / "run.json").read_text())["made_with"]
    assert made["bits"] == "portable"
    assert made["cpu"] not in bits.WIDER
    assert made["device"] == "cpu"
    assert made["numpy_cpu"]
    assert 'bits = "portable"' in (tmp_path / "run" / "config.toml").read_text()


def test_a_command_begins_again_by_itself(tmp_path):
    path = tmp_path / "x.toml"
    lines = ["rounds = 1", 'method = "fedavg"', 'bits = "portable"', "data.train = 100"]
    path.write_text("\n".join(lines))
    own = {
        k: v for k, v in os.environ.items() if k not in (bits.ASKED, *bits.SETTINGS, *bits.OTHERS)
    }
    command = [sys.executable, "-m", "flr.cli.main", "run", str(path), "--out", str(tmp_path / "r")]
    done = subprocess.run(command, env=own, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (made,) = json.loads((tmp_path / "r" / "run.json").read_text())["made_with"]
    assert made["bits"] == "portable"
