"""Initial weights: what fits is loaded, what does not is named, and no file runs anything."""

from __future__ import annotations

import logging
import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import nn

import flr
from flr.config import load, parse
from flr.core import arrays
from flr.core.errors import ConfigError, DataError
from flr.models import model_file, pretrained, resnets
from flr.models import networks as models

SHAPE = (1, 8, 8)
Weights = dict[str, torch.Tensor]


def small(classes: int, seed: int = 3, hidden: int = 8) -> nn.Module:
    return models.build(lambda s, c: models.mlp(s, c, hidden=hidden), SHAPE, classes, 1, seed)[0]


def start(path: Path, classes: int = 4, networks: int = 1, **model: Any) -> nn.ModuleList:
    """The networks of a run that starts from a file."""
    chosen = {"name": "mlp", "hidden": 8, **model}
    train = parse({"rounds": 1, "train": {"model": chosen, "init": str(path)}}).train
    return pretrained.first_networks(train, train.model.build(), SHAPE, classes, networks, seed=1)


def same(network: nn.Module, weights: Weights, names: set[str] | None = None) -> bool:
    own = network.state_dict()
    return all(torch.equal(own[name], weights[name]) for name in names or own)


@pytest.fixture
def weights() -> Weights:
    return small(10).state_dict()


def save_bare(weights: Weights, path: Path) -> None:
    torch.save(weights, path)


def save_checkpoint(weights: Weights, path: Path) -> None:
    torch.save({"state_dict": weights, "epoch": 3, "optimizer": {"lr": 0.1}}, path)


def save_nested(weights: Weights, path: Path) -> None:
    torch.save({"model": weights}, path)


def save_parallel(weights: Weights, path: Path) -> None:
    torch.save({"state_dict": {f"module.{k}": v for k, v in weights.items()}}, path)


def save_old(weights: Weights, path: Path) -> None:
    torch.save(weights, path, _use_new_zipfile_serialization=False)


def save_plain(weights: Weights, path: Path) -> None:
    safetensors.torch.save_file(weights, path, {"format": "pt"})


def save_run(weights: Weights, path: Path) -> None:
    model_file.save(
        path, {f"model.0.{k}": v for k, v in weights.items()}, {"model": {"name": "mlp"}}
    )


@pytest.mark.parametrize(
    ("name", "save"),
    [
        ("w.pth", save_bare),
        ("w.pt", save_checkpoint),
        ("w.pth", save_nested),
        ("w.pth.tar", save_parallel),
        ("w.pth", save_old),
        ("w.safetensors", save_plain),
        ("model.safetensors", save_run),
    ],
)
def test_every_kind_of_file(name, save, weights, tmp_path):
    save(weights, tmp_path / name)
    assert same(start(tmp_path / name, classes=10)[0], weights)
    fewer = start(tmp_path / name, classes=4)[0]
    body = {key for key in weights if not key.startswith("head")}
    assert same(fewer, weights, body)
    assert same(fewer, small(4, seed=1).state_dict(), {"head.weight", "head.bias"})


def test_the_head_of_resnet50_is_fc_and_old_files_lack_counters(tmp_path):
    """As torchvision's first ImageNet files: 1000 classes, no num_batches_tracked."""
    donor = resnets.resnet50((3, 32, 32), 1000, width=4).state_dict()
    donor = {name: value for name, value in donor.items() if "num_batches" not in name}
    torch.save(donor, tmp_path / "w.pth")
    network = resnets.resnet50((3, 32, 32), 14, width=4)
    assert not pretrained.fill(network, pretrained.read(tmp_path / "w.pth")[0], tmp_path)
    assert same(network, donor, donor.keys() - {"fc.weight", "fc.bias"})
    assert network.fc.weight.shape == (14, 128)
    assert not network.state_dict()["bn1.num_batches_tracked"]


def test_a_file_without_a_head_fits(weights, tmp_path):
    body = {name: value for name, value in weights.items() if "head" not in name}
    torch.save(body, tmp_path / "w.pth")
    assert same(start(tmp_path / "w.pth")[0], body, set(body))


def test_weights_of_half_precision_become_the_networks_own(weights, tmp_path):
    torch.save({name: value.half() for name, value in weights.items()}, tmp_path / "w.pth")
    network = start(tmp_path / "w.pth", classes=10)[0]
    torch.testing.assert_close(dict(network.state_dict()), dict(weights), rtol=1e-3, atol=1e-4)


def test_nothing_changes_without_init():
    train = parse({"rounds": 1}).train
    made = pretrained.first_networks(train, models.mlp, SHAPE, 4, 2, seed=9)
    expected = models.build(models.mlp, SHAPE, 4, 2, seed=9)
    assert same(made, expected.state_dict())


def test_every_network_starts_from_the_file(weights, tmp_path, caplog):
    save_bare(weights, tmp_path / "w.pth")
    first, second = start(tmp_path / "w.pth", classes=4, networks=2)
    assert torch.equal(first.body[1].weight, second.body[1].weight)
    assert not torch.equal(first.head.weight, second.head.weight)
    assert not caplog.messages
    with caplog.at_level(logging.WARNING, logger="flr"):
        first, second = start(tmp_path / "w.pth", classes=10, networks=2)
    assert torch.equal(first.head.weight, second.head.weight)
    assert "start equal" in caplog.text


def test_two_saved_networks_go_to_two(tmp_path):
    both = [small(4, seed).state_dict() for seed in (5, 6)]
    named = {f"model.{i}.{k}": v for i, state in enumerate(both) for k, v in state.items()}
    model_file.save(tmp_path / "model.safetensors", named, {})
    made = start(tmp_path / "model.safetensors", networks=2)
    assert [same(network, state) for network, state in zip(made, both, strict=True)] == [True] * 2


def without(weights: Weights, *names: str) -> Weights:
    return {name: value for name, value in weights.items() if name not in names}


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda w: without(w, "body.1.bias"), r"1 missing \(body\.1\.bias\)"),
        (lambda w: without(w, "head.bias"), r"1 missing \(head\.bias\)"),
        (lambda w: {**w, "aux.weight": torch.ones(2)}, r"1 unexpected \(aux\.weight\)"),
        (
            lambda w: {**w, "body.1.weight": torch.ones(8, 3)},
            r"1 of another shape \(body\.1\.weight: 8 x 3 instead of 8 x 64\)",
        ),
        (
            lambda w: {**w, "head.weight": torch.ones(10, 5)},
            r"1 of another shape \(head\.weight: 10 x 5 instead of 10 x 8\)",
        ),
        (lambda w: {**w, "body.1.bias": w["body.1.bias"] / 0}, r"finite weights; body\.1\.bias"),
        (
            lambda w: {f"x.{k}": v for k, v in w.items()},
            r"2 missing .* 4 unexpected \(x.*, \.\.\.\)",
        ),
        (lambda w: {**w, "epoch": 3}, r"plain tensors; 'epoch'"),
        (lambda w: {**w, 5: torch.ones(2)}, r"plain tensors; 5"),
        (lambda _: {"a": torch.ones(2, device="meta")}, "plain tensors; 'a'"),
        (lambda _: {"a": torch.ones(2).to_sparse()}, "plain tensors; 'a'"),
        (lambda _: {}, "an empty table"),
        (lambda w: [w], "holds a list"),
    ],
)
def test_what_does_not_fit_is_named(damage, message, weights, tmp_path):
    torch.save(damage(weights), tmp_path / "w.pth")
    with pytest.raises(DataError, match=message):
        start(tmp_path / "w.pth", classes=10)


class Hostile:
    def __reduce__(self):
        return os.mkdir, ("pwned",)


@pytest.mark.parametrize("new", [True, False])
def test_a_hostile_pickle_runs_nothing(new, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save({"w": Hostile()}, "zip.pth", _use_new_zipfile_serialization=new)
    Path("bare.pth").write_bytes(pickle.dumps(Hostile(), protocol=2))
    Path("renamed.safetensors").write_bytes(Path("zip.pth").read_bytes())
    for name in ("zip.pth", "bare.pth", "renamed.safetensors"):
        with pytest.raises(DataError, match=f"{name}; it"):
            pretrained.read(tmp_path / name)
    assert not Path("pwned").exists()


def test_a_whole_pickled_model_is_refused(tmp_path):
    torch.save(small(4), tmp_path / "w.pth")
    with pytest.raises(DataError, match=r"something else \(flr\.models\.networks\.Network\)"):
        pretrained.read(tmp_path / "w.pth")


@pytest.mark.parametrize("name", ["w.pth", "w.safetensors"])
def test_broken_files(name, weights, tmp_path):
    path = tmp_path / name
    (save_plain if name.endswith("safetensors") else save_bare)(weights, path)
    whole = path.read_bytes()
    for data in (b"", b"no weights", whole[: len(whole) // 2], whole[:-1], whole[::-1]):
        path.write_bytes(data)
        with pytest.raises(DataError, match=r"cannot be read|something else"):
            pretrained.read(path)


def test_a_zip_of_something_else(tmp_path):
    with zipfile.ZipFile(tmp_path / "w.pth", "w") as file:
        file.writestr("readme.txt", "hello")
    with pytest.raises(DataError, match="cannot be read"):
        pretrained.read(tmp_path / "w.pth")


def test_a_missing_file_or_a_folder(tmp_path):
    with pytest.raises(DataError, match="there is none"):
        pretrained.read(tmp_path / "w.pth")
    with pytest.raises(DataError, match="got a folder"):
        pretrained.read(tmp_path)


def test_a_model_file_with_odd_names_is_no_crash(tmp_path):
    model_file.save(tmp_path / "model.safetensors", {"model.x": torch.ones(2)}, {})
    with pytest.raises(DataError, match="2 missing"):
        start(tmp_path / "model.safetensors")


ROWS = np.random.default_rng(0).normal(size=(60, 5)).astype(np.float32)


def settings(**train: Any) -> dict[str, Any]:
    return {
        "rounds": 2,
        "workers": 1,
        "method": "fedavg",
        "partition": {"clients": 2},
        "train": {"model": {"name": "mlp", "hidden": 4}, "epochs": 1, "lr": 1e-12, **train},
    }


def data(classes: int) -> tuple[Any, Any]:
    return ROWS, np.arange(60) % classes


@pytest.fixture(scope="module")
def donor(tmp_path_factory) -> flr.Run:
    config = settings(lr=0.1) | {"seed": 8}
    return flr.run(config, data=data(3), out=tmp_path_factory.mktemp("donor") / "run")


def test_a_run_starts_where_another_ended(donor, tmp_path, monkeypatch):
    """A learning rate of nothing shows what the first round began with."""
    monkeypatch.chdir(donor.folder)
    config = settings(init="model.safetensors")
    done = flr.run(config, data=data(3), out=tmp_path / "same")
    assert done.config.train.init == donor.folder / "model.safetensors"
    own, given = (run.model().networks.state_dict() for run in (done, donor))
    for name in given:
        torch.testing.assert_close(own[name], given[name])
    other = flr.run(config, data=data(2), out=tmp_path / "other").model().networks[0]
    torch.testing.assert_close(other.body[1].weight, given["0.body.1.weight"])
    assert other.head.out_features == 2


def test_resume_before_the_first_checkpoint_and_evaluate_without_the_file(donor, tmp_path):
    path = tmp_path / "w.safetensors"
    path.write_bytes((donor.folder / "model.safetensors").read_bytes())
    config = settings(init=str(path), lr=0.1)
    whole = flr.run(config, data=data(3), out=tmp_path / "whole")

    def stop(_: dict[str, Any]) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        flr.run(config, data=data(3), out=tmp_path / "run", on_round=stop)
    assert not list((tmp_path / "run" / "checkpoint").glob("*.json"))
    resumed = flr.resume(tmp_path / "run", data=data(3))
    files = [run.folder / "model.safetensors" for run in (whole, resumed)]
    assert files[0].read_bytes() == files[1].read_bytes()
    path.unlink()
    assert model_file.load(files[0]).probabilities(torch.from_numpy(ROWS)).shape == (60, 3)
    assert "init" not in arrays.load(files[0])[1]


def test_a_file_that_does_not_fit_is_found_before_a_folder_is_made(donor, tmp_path):
    config = settings(init=str(donor.folder / "model.safetensors"))
    config["train"]["model"] = {"name": "mlp", "hidden": 5}
    with pytest.raises(DataError, match="of another shape"):
        flr.run(config, data=data(3), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_resolved_config_keeps_an_absolute_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = parse({"rounds": 1, "train": {"init": "w.pth"}})
    Path("c.toml").write_text(config.to_toml())
    assert load(Path("c.toml")) == config
    assert config.train.init == tmp_path / "w.pth"
    with pytest.raises(ConfigError, match=r"\[train\] init = 3 should be a path"):
        parse({"rounds": 1, "train": {"init": 3}})
