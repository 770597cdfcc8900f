"""Results of another machine's device are read everywhere; only training asks for a device here."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import flr
from flr.config import load
from flr.core.errors import ConfigError

CONFIG = {
    "rounds": 2,
    "workers": 1,
    "method": "flr",
    "data": {"name": "digits", "train": 60, "test": 20},
    "partition": {"kind": "iid", "clients": 3},
    "noise": {"kind": "symmetric", "clients": 1.0},
    "train": {"model": "linear", "epochs": 1},
}
ABSENT = "cuda:7"


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    return flr.run(CONFIG, out=tmp_path_factory.mktemp("here") / "run").folder


@pytest.fixture
def elsewhere(here, tmp_path):
    """The same run as if it had been trained on a device that no test machine has."""
    folder = Path(shutil.copytree(here, tmp_path / "elsewhere"))
    path = folder / "config.toml"
    path.write_text(path.read_text().replace('device = "cpu"', f'device = "{ABSENT}"'))
    (folder / "run.json").unlink()
    return folder


def test_it_can_be_read_compared_and_audited(elsewhere, here, cli):
    assert flr.Run(elsewhere).config.train.device == ABSENT
    assert cli("compare", here, elsewhere).code == 0
    assert cli("audit", elsewhere, "--client", "0").code == 0


def test_to_go_on_asks_for_a_device_of_this_machine(elsewhere, here, cli):
    refused = cli("resume", elsewhere)
    assert refused.code == 3
    assert ABSENT in refused.err
    assert "--device cpu" in refused.err.replace("\n", " ")
    assert cli("resume", elsewhere, "--device", "cpu").code == 0


def test_a_config_of_ones_own_names_a_device_that_is_there(elsewhere):
    with pytest.raises(ConfigError, match="is not on this machine"):
        load(elsewhere / "config.toml")
