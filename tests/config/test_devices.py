"""Results of another machine's device are read everywhere; only training asks for a device here."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

import flr
from flr.config import load, parse
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


def train(**keys):
    return parse({"rounds": 1, "train": keys}).train


@pytest.fixture
def two_gpus(monkeypatch):
    """As torch says it where there are two; nothing is computed."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)


def test_auto_stays_auto_in_the_file_and_is_what_each_machine_has(two_gpus, monkeypatch):
    config = parse({"rounds": 1, "train": {"device": "auto"}})
    assert 'device = "auto"' in config.to_toml()
    assert config.train.main_device == "cuda"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert config.train.main_device == "cpu"


def test_devices_are_dealt_to_workers_in_turn(two_gpus):
    several = train(devices=["cuda:1", "cuda:0"])
    assert several.of_workers(3) == ("cuda:1", "cuda:0", "cuda:1")
    assert several.main_device == "cuda:1"
    assert "device" not in several.table()


def test_one_gpu_has_one_worker_unless_it_is_asked_for(two_gpus):
    assert train(device="cuda").of_workers(4) == ("cuda",)
    assert train(devices=["cuda:0"]).of_workers(4) == ("cuda:0",) * 4
    assert train(device="cpu").of_workers(4) == ("cpu",) * 4


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"devices": ["cuda:9"]}, "is not on this machine"),
        ({"devices": ["auto"]}, "one by one"),
        ({"devices": ["cpu"], "device": "cpu"}, "device is given too. Remove one"),
    ],
)
def test_devices_that_cannot_be_are_refused(keys, words):
    with pytest.raises(ConfigError, match=words):
        train(**keys)


def test_bf16_is_refused_where_nobody_has_tried_it(monkeypatch):
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert train(amp="bf16").amp == "bf16"
    with pytest.raises(ConfigError, match=r'amp = "bf16" cannot be computed here: not on mps'):
        train(amp="bf16", device="mps")
    with pytest.raises(ConfigError, match="not on mps"):
        parse({"rounds": 1, "train": {"amp": "bf16"}}).on_device("mps")
