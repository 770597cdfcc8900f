"""The backbone "timm": a network without its classifier, fed as timm says."""

from __future__ import annotations

import sys

import pytest
import torch

from flr.config.entry import parse_entry
from flr.config.errors import ProblemsError
from flr.core.errors import ConfigError, DataError
from flr.models.backbones.timm_backbone import Timm

STAND_IN = """
import types

import torch

__version__ = "0-stand-in"
CALLS = []


def list_models():
    return ["resnet18", "vit"]


def is_model(name):
    return name.partition(".")[0] in list_models()


def get_pretrained_cfg(name, allow_unregistered=True):
    if name.endswith(".wrong"):
        raise RuntimeError("Invalid pretrained tag")
    mean, std = (0.5, 0.25, 0.0), (0.5, 0.25, 1.0)
    fixed, size = name == "vit", (3, 24, 24)
    about = {"mean": mean, "std": std, "input_size": size, "fixed_input_size": fixed}
    return types.SimpleNamespace(classifier="fc", **about)


def create_model(name, pretrained=False, num_classes=1000, in_chans=3, img_size=24):
    CALLS.append((name, pretrained, num_classes, img_size))
    if pretrained and name == "vit":
        raise OSError("no route to the hub")
    model = torch.nn.Sequential()
    model.add_module("pool", torch.nn.AdaptiveAvgPool2d(1))
    model.add_module("conv", torch.nn.Conv2d(in_chans, 4, 1))
    if pretrained:
        torch.nn.init.constant_(model.conv.weight, 0.25)
        torch.nn.init.zeros_(model.conv.bias)
    if num_classes:
        model.add_module("flat", torch.nn.Flatten())
        model.add_module("fc", torch.nn.Linear(4, num_classes))
    return model
"""


@pytest.fixture
def timm(tmp_path, monkeypatch):
    """A stand-in: timm itself needs torchvision, so that it never runs here (see test_timm.py)."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "timm.py").write_text(STAND_IN)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.delitem(sys.modules, "timm", raising=False)
    import timm as found

    yield found
    sys.modules.pop("timm", None)


def test_features_are_pooled_and_pixels_as_timm_says(timm):
    entry = parse_entry("backbone", "timm:resnet18", default="minilm")
    assert parse_entry("backbone", entry.table("name"), default="minilm") == entry
    made = entry.build()
    assert made == Timm(model="resnet18")
    assert (made.takes, made.side) == ("images", 24)
    white = torch.full((2, 3, 40, 40), 255, dtype=torch.uint8)
    found = made.load()(white)
    expected = 0.25 * ((1 - 0.5) / 0.5 + (1 - 0.25) / 0.25 + 1)
    assert torch.allclose(found, torch.full((2, 4), expected))
    assert timm.CALLS == [("resnet18", True, 0, 24)]


def test_a_file_of_weights_is_read_in_place_of_timms(timm, tmp_path):
    path = tmp_path / "weights.pth"
    whole = timm.create_model("resnet18", num_classes=10)
    torch.save(whole.state_dict(), path)
    timm.CALLS.clear()
    made = Timm(model="resnet18", weights=path)
    state = made.load().body.state_dict()
    assert all(torch.equal(state[name], whole.state_dict()[name]) for name in state)
    assert timm.CALLS == [("resnet18", False, 0, 24)]
    assert made.fingerprint() != Timm(model="resnet18").fingerprint()
    torch.save({"conv.weight": torch.ones(4, 3, 1, 1)}, path)
    with pytest.raises(DataError, match=r"backbone timm:resnet18; .* 1 missing \(conv.bias\)"):
        made.load()


def test_the_fingerprint_is_that_of_the_weights(timm):
    first = Timm(model="resnet18").fingerprint()
    assert first == Timm(model="resnet18", size=32).fingerprint()


def test_a_network_of_fixed_size_is_told_another(timm, tmp_path):
    torch.save(timm.create_model("vit").state_dict(), tmp_path / "weights.pth")
    timm.CALLS.clear()
    for size in (None, 24, 48):
        made = Timm(model="vit", weights=tmp_path / "weights.pth", size=size)
        assert made.load().side == (size or 24)
    assert [call[-1] for call in timm.CALLS] == [24, 24, 48]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("timm:resnet81", r'\[data\] backbone = .*not known to timm .*Did you mean "resnet18"'),
        ("timm:hf-hub:someone/model", "hubs and folders"),
        ("timm:../x", "hubs and folders"),
    ],
)
def test_names_that_are_refused(name, message, timm):
    with pytest.raises(ProblemsError, match=message):
        parse_entry("backbone", name, default="minilm")
    assert not timm.CALLS


def test_weights_that_timm_does_not_give(timm):
    with pytest.raises(ConfigError, match=r"no route to the hub.*timm's cache"):
        Timm(model="vit").load()
    with pytest.raises(ConfigError, match="Invalid pretrained tag"):
        Timm(model="resnet18.wrong").load()


def test_without_timm_the_config_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", None)
    message = r'\[data\] backbone = .*not installed.*torchvision.*pip install "flr\[timm\]"'
    with pytest.raises(ProblemsError, match=message):
        parse_entry("backbone", "timm:resnet18", default="minilm")
