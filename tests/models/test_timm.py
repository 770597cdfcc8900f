"""`timm:NAME` models: imported by name, weights of timm's own, no trust needed."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch

import flr
from flr.client.state import StateFiles
from flr.config import parse
from flr.core.errors import ConfigError
from flr.models import model_file
from flr.simulation import api
from flr.simulation.build import make_sites, make_worker_spec

STAND_IN = """
import torch

__version__ = "0-stand-in"
CALLS = []


def list_models():
    return ["resnet18", "resnet34"]


def is_model(name):
    return name.partition(".")[0] in list_models()


def create_model(name, pretrained=False, num_classes=1000, in_chans=3, bias=True):
    CALLS.append((name, pretrained, num_classes, in_chans, bias))
    convolution = torch.nn.Conv2d(in_chans, 4, 3, bias=bias)
    if name == "resnet34":
        raise OSError("no route to the hub")
    if pretrained:
        torch.nn.init.constant_(convolution.weight, 0.25)
    pooled = [torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten()]
    return torch.nn.Sequential(convolution, *pooled, torch.nn.Linear(4, num_classes))
"""


@pytest.fixture
def timm(tmp_path, monkeypatch):
    """A stand-in: timm itself needs torchvision and gigabytes, so that it never runs here.

    It has the three functions that are used, with timm's signatures (1.0), and counts calls.
    """
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "timm.py").write_text(STAND_IN)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.delitem(sys.modules, "timm", raising=False)
    import timm as found

    yield found
    sys.modules.pop("timm", None)


def from_timm(**options: Any) -> dict[str, Any]:
    """A run that leaves weights as they are, to see what it began with."""
    model = {"name": "timm:resnet18", **options}
    train = {"model": model, "epochs": 1, "batch": 200, "lr": 1e-12}
    return {"rounds": 1, "workers": 1, "method": "fedavg", "train": train}


def test_a_network_of_timm_trains_and_predicts_without_trust(timm, tmp_path):
    config = from_timm(pretrained=True, bias=False)
    done = flr.run(config, out=tmp_path / "run")
    assert timm.CALLS[0] == ("resnet18", True, 10, 1, False)
    started = {pretrained for _, pretrained, *_ in timm.CALLS}
    assert started == {True, False}
    timm.CALLS.clear()
    model = model_file.load(done.folder / "model.safetensors")
    assert [call[1] for call in timm.CALLS] == [False]  # no download for what is trained already
    torch.testing.assert_close(model.networks[0][0].weight, torch.full((4, 1, 3, 3), 0.25))
    assert done.config == parse(config)


def test_workers_need_no_weights_of_timm(timm, tmp_path):
    config = parse(from_timm(pretrained=True))
    dataset = api.load_data(config)
    scenario = api.load_scenario(config, dataset)
    sites = make_sites(dataset, scenario)
    spec = make_worker_spec(config, dataset.task_spec(), sites, StateFiles(tmp_path))
    spec.blank_networks()
    assert timm.CALLS == [("resnet18", False, 10, 1, True)]


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("timm:resnet81", 'not known to timm .*Did you mean "resnet18"'),
        ("timm:hf-hub:someone/model", "hubs and folders"),
        ("timm:local-dir:/tmp/x", "hubs and folders"),
        ("timm:../x", "hubs and folders"),
        ("timm:", "hubs and folders"),
        ({"name": "timm:resnet18", "num_classes": 3}, "num_classes comes from the data"),
        ({"name": "timm:resnet18", "checkpoint_path": "x"}, r"Give a file with \[train\] init"),
        ({"name": "timm:resnet18", "pretrained": "yes"}, "pretrained should be true or false"),
    ],
)
def test_names_and_options_that_are_refused(model, message, timm):
    with pytest.raises(ConfigError, match=message):
        parse({"rounds": 1, "train": {"model": model}})
    assert not timm.CALLS


def test_two_sources_of_weights_are_refused(timm):
    with pytest.raises(ConfigError, match=r"\[train\] init = .*so does pretrained = true"):
        parse({"rounds": 1, "train": {"init": "w.pth", **from_timm(pretrained=True)["train"]}})
    parse({"rounds": 1, "train": {"init": "w.pth", **from_timm()["train"]}})


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"name": "timm:resnet18", "depth": 3}, "TypeError: .*depth.*Change its options"),
        ({"name": "timm:resnet34", "pretrained": True}, "no route to the hub.*timm's cache"),
    ],
)
def test_what_timm_cannot_build_is_found_before_a_folder_is_made(model, message, timm, tmp_path):
    with pytest.raises(ConfigError, match=message):
        flr.run({"rounds": 1, "train": {"model": model}}, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_timm_needs_images(timm, tmp_path):
    with pytest.raises(ConfigError, match="needs images"):
        flr.run(from_timm(), data=(torch.ones(60, 5), torch.arange(60) % 3), out=tmp_path / "run")


def test_without_timm_the_config_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(ConfigError, match=r'not installed.*torchvision.*pip install "flr\[timm\]"'):
        parse({"rounds": 1, "train": {"model": "timm:resnet18"}})
    meta = {"model": {"name": "timm:resnet18"}, "method": [{"name": "fedavg"}]}
    model_file.save(tmp_path / "model.safetensors", {"model.0.w": torch.ones(1)}, meta)
    with pytest.raises(ConfigError, match="not installed"):
        model_file.load(tmp_path / "model.safetensors")
