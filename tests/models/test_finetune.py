"""Backbones that are trained in a federation: what is frozen stays at home, the rest is sent."""

from __future__ import annotations

import copy
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from direct import DirectGrid, run_config, train_on_flower
from torch import Tensor, nn

import flr
from flr.client.worker import frozen_copy
from flr.config import parse
from flr.core import arrays
from flr.core.contract import MODEL
from flr.core.errors import ConfigError, DataError, RunError
from flr.data.dataset import Normalization
from flr.flower import wire
from flr.flower.run_spec import RunSpec
from flr.flower.server import serve
from flr.models import finetune, model_file
from flr.models.backbones import efficientnet_lite
from flr.models.networks import build, weights_of
from flr.simulation.build import threads

LITE: dict[str, Any] = {"name": "efficientnet-lite0", "size": 32}
DIGITS = Normalization((4.9,), (6.0,))
SITES = 2
TINY: dict[str, Any] = {
    "seed": 3,
    "rounds": 2,
    "workers": 1,
    "method": "flr",
    "data": {"name": "digits", "train": 24, "test": 10},
    "partition": {"clients": SITES},
    "noise": {"kind": "symmetric", "floor": 0.3},
}


@pytest.fixture(autouse=True)
def _one_thread():
    """As a run has it."""
    with threads(1):
        yield


def settings(trainable: str, **options: Any) -> dict[str, Any]:
    train = {"participation": 1.0, "epochs": 1, "lr": 0.01, "trainable": trainable}
    return {**TINY, "train": {**train, "model": {"name": "backbone", "backbone": LITE, **options}}}


def network(trainable: Any, **options: Any) -> Any:
    model = parse({"rounds": 1, "train": {"model": {"name": "backbone", **options}}}).train.model
    make = finetune.factory_of(model, DIGITS, trainable)
    return build(make, (1, 8, 8), 10, 1, seed=1)[0]


def original() -> Any:
    return efficientnet_lite.Lite0(size=32).network()


def pictures(count: int = 4) -> Tensor:
    rng = torch.Generator().manual_seed(5)
    return torch.randint(0, 17, (count, 1, 8, 8), dtype=torch.uint8, generator=rng)


def model_bytes(folder: Path) -> bytes:
    return (folder / "model.safetensors").read_bytes()


@pytest.mark.parametrize("trainable", ["head", "last", "all"])
def test_it_starts_as_the_pretrained_network_with_a_head(trainable):
    """The data set's normalisation is undone to the byte, so the features are those of [data]."""
    made, x = network(trainable, backbone=LITE), pictures()
    normalized = DIGITS(x)
    assert torch.equal(made.pixels(normalized), x)
    with torch.no_grad():
        features = original()(x)
        found = made.eval()(normalized)
        torch.testing.assert_close(found, made.head(features), rtol=1e-3, atol=1e-3)


def test_only_what_is_trained_is_in_the_state():
    whole = original()
    trained = {name for name, _ in whole.named_parameters()}
    last = len(whole.stages) - 2
    late = {n for n in trained if int(n.split(".")[1]) >= last}
    head = {"head.weight", "head.bias"}
    assert set(network("head", backbone=LITE).state_dict()) == head
    assert set(network("last", backbone=LITE).state_dict()) == head | late
    assert set(network("all", backbone=LITE).state_dict()) == head | trained
    averaged = network("all", backbone=LITE, batchnorm="averaged")
    assert set(averaged.state_dict()) == head | set(whole.state_dict())


@pytest.mark.parametrize("batchnorm", ["frozen", "averaged"])
def test_a_step_moves_what_is_trained_and_nothing_else(batchnorm):
    made = network("last", backbone=LITE, batchnorm=batchnorm).train()
    statistics = [b.clone() for n, b in made.named_buffers() if n.endswith("running_mean")]
    before = {name: value.clone() for name, value in made.state_dict().items()}
    shared = [value.clone() for value in made.frozen.original().parameters()]
    optimizer = torch.optim.SGD(made.parameters(), lr=0.1)
    made(DIGITS(pictures())).square().sum().backward()
    optimizer.step()
    changed = {n for n, value in made.state_dict().items() if not torch.equal(value, before[n])}
    assert {n for n, _ in made.named_parameters()} <= changed
    now = [b for n, b in made.named_buffers() if n.endswith("running_mean")]
    assert all(map(torch.equal, statistics, now)) == (batchnorm == "frozen")
    assert all(map(torch.equal, shared, made.frozen.original().parameters()))


def test_copies_share_the_frozen_part_and_pickles_carry_its_recipe():
    finetune._encoder.cache_clear()
    made = network("head", backbone=LITE)
    twin = copy.deepcopy(made)
    x = pictures().float()
    assert torch.equal(made(x), twin(x))
    assert finetune._encoder.cache_info().misses == 1
    assert len(pickle.dumps(made)) < 150_000  # a head of 1,280 x 10, not 18 MB
    assert torch.equal(pickle.loads(pickle.dumps(made))(x), made(x))


def test_the_received_model_is_copied_for_reading():
    made = nn.ModuleList([network("last", backbone=LITE)])
    other = {name: value + 0.01 for name, value in weights_of(made).items()}

    class Inbox:
        inbox = other

    frozen = frozen_copy(made, Inbox())  # type: ignore[arg-type]
    assert all(map(torch.equal, weights_of(frozen).values(), other.values()))
    assert not any(value.requires_grad for value in frozen.parameters())
    assert all(value.requires_grad for value in made.parameters())
    x = pictures().float()
    assert not torch.equal(frozen[0](x), made[0](x))


@pytest.mark.parametrize(
    ("trainable", "batchnorm"), [("head", "frozen"), ("last", "frozen"), ("all", "averaged")]
)
def test_the_same_bits_with_two_workers_and_on_flower(trainable, batchnorm, tmp_path):
    given = settings(trainable, batchnorm=batchnorm)
    one = flr.run(given, out=tmp_path / "one")
    flr.run({**given, "workers": 2}, out=tmp_path / "two")
    grid = train_on_flower(given, tmp_path / "flower", tmp_path / "state", SITES)
    assert model_bytes(one.folder) == model_bytes(tmp_path / "two")
    assert model_bytes(one.folder) == model_bytes(tmp_path / "flower")
    task = next(m for m in grid.messages if m.metadata.message_type == "train")
    _, sent = wire.read(task.content)
    expected = network(trainable, backbone=LITE, batchnorm=batchnorm).state_dict()
    names = {name for name in sent if name.startswith(MODEL)}
    assert names == {f"{MODEL}0.{name}" for name in expected}
    first, last = one.metrics[0], one.metrics[-1]
    assert last["round"] == 2
    assert first["accuracy"] is not None


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    with threads(1):
        return flr.run(settings("last"), out=tmp_path_factory.mktemp("run") / "run").folder


def test_a_model_file_names_the_weights_it_needs_and_loads_again(trained):
    weights, meta = arrays.load(trained / "model.safetensors")
    assert meta["model"]["backbone"]["name"] == "efficientnet-lite0"
    assert meta["model"]["fingerprint"] == efficientnet_lite.Lite0().fingerprint()
    assert sum(value.numel() for value in weights.values()) < 2_000_000
    model = model_file.load(trained)
    x = pictures()
    assert torch.equal(model.probabilities(x), flr.Run(trained).model().probabilities(x))
    assert model.networks[0].frozen.fingerprint == meta["model"]["fingerprint"]


def other_weights(path: Path) -> Path:
    """A file of the package's names with other numbers."""
    file = efficientnet_lite.Lite0()._file()
    saved = torch.load(file, weights_only=True)
    torch.save({name: value * 1.01 for name, value in saved.items()}, path)
    return path


def test_a_model_file_refuses_other_weights(trained, tmp_path):
    file = other_weights(tmp_path / "other.pth")
    weights, meta = arrays.load(trained / "model.safetensors")
    model = {**meta["model"], "backbone": {**LITE, "weights": str(file)}}
    arrays.save(tmp_path / "model.safetensors", weights, {**meta, "model": model})
    with pytest.raises(DataError, match=r"Expected the weights \w{12} of backbone \"efficientnet"):
        model_file.load(tmp_path / "model.safetensors")


def test_a_run_does_not_go_on_with_other_weights(tmp_path):
    file = tmp_path / "own.pth"
    shutil.copy(efficientnet_lite.Lite0()._file(), file)
    own = settings("head", backbone={**LITE, "weights": str(file)})
    flr.run({**own, "rounds": 1}, out=tmp_path / "run")
    other_weights(file)
    with pytest.raises(DataError, match="those here are"):
        flr.resume(tmp_path / "run")
    file.unlink()
    with pytest.raises(DataError, match="there is none"):
        flr.run(own, out=tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_code_of_a_backbone_is_not_imported_without_trust(trained, tmp_path):
    weights, meta = arrays.load(trained / "model.safetensors")
    model = {**meta["model"], "backbone": {"name": "nobody_has_this:make"}}
    arrays.save(tmp_path / "model.safetensors", weights, {**meta, "model": model})
    with pytest.raises(DataError, match='needs the code "nobody_has_this:make"'):
        model_file.load(tmp_path / "model.safetensors")


@pytest.mark.parametrize(
    ("train", "words"),
    [
        ({"model": "mlp", "trainable": "head"}, ['[train] trainable = "head"', "Remove it"]),
        ({"model": {"name": "backbone", "backbone": "eficientnet-lite0"}}, ["Did you mean"]),
        ({"model": {"name": "backbone", "backbone": {**LITE, "sise": 3}}}, ['mean "size"']),
    ],
)
def test_what_cannot_be_frozen_is_said_when_the_config_is_read(train, words):
    with pytest.raises(ConfigError) as caught:
        parse({"rounds": 1, "train": train})
    assert all(word in str(caught.value) for word in words), caught.value


def test_training_all_weights_is_what_a_config_means_that_says_nothing():
    plain, said = parse({"rounds": 1}), parse({"rounds": 1, "train": {"trainable": "all"}})
    assert plain.to_toml() == said.to_toml()
    assert "trainable" not in plain.to_toml()
    some = parse({**settings("head"), "rounds": 1})
    assert 'trainable = "head"' in some.to_toml()


def test_a_backbone_needs_bytes(tmp_path):
    x, y = torch.rand(40, 1, 8, 8), torch.arange(40) % 2
    with pytest.raises(ConfigError, match="needs images of bytes, 0 to 255"):
        flr.run(settings("head") | {"data": {}}, data=(x, y), out=tmp_path / "run")


def test_a_run_on_features_does_not_go_on_with_other_weights(tmp_path):
    file = tmp_path / "own.pth"
    shutil.copy(efficientnet_lite.Lite0()._file(), file)
    data = {**TINY["data"], "backbone": {**LITE, "weights": str(file)}}
    done = flr.run({**TINY, "rounds": 1, "data": data}, out=tmp_path / "run")
    flr.resume(done.folder)
    other_weights(file)
    with pytest.raises(DataError, match="other features"):
        flr.resume(done.folder)


@pytest.mark.parametrize("section", ["data", "train"])
def test_a_site_reads_no_file_that_a_server_names(section, tmp_path):
    """Not from a server of ours, nor from one that says it all the same."""
    file = tmp_path / "server.pth"
    shutil.copy(efficientnet_lite.Lite0()._file(), file)
    own = {**LITE, "weights": str(file)}
    trained = settings("head", backbone=own)
    on_features = {**TINY, "data": {**TINY["data"], "backbone": own}}
    config = parse({"data": on_features, "train": trained}[section])
    spec = RunSpec.of("0" * 16, config, ("a", "b"))
    assert "server.pth" not in str(spec.to_note())
    tree = {"data": {"backbone": dict(own)}, "train": {"model": {"backbone": dict(own)}}}
    heard = RunSpec.from_note({**spec.to_note(), "config": tree})
    assert "server.pth" not in str(heard.tree)
    assert "server.pth" in str(RunSpec.of("0" * 16, config, ()).to_note())  # one machine's scenario


def test_sites_with_files_of_their_own_take_the_weights_from_their_own_place(tmp_path):
    """The server has them in another file: its path does not cross the wire, their hash does."""
    file = tmp_path / "server.pth"
    shutil.copy(efficientnet_lite.Lite0()._file(), file)
    given = settings("head", backbone={**LITE, "weights": str(file)})
    x = np.random.default_rng(1).integers(0, 255, (12, 9, 9, 3), dtype=np.uint8)
    nodes = {}
    for number in range(SITES):
        np.savez(tmp_path / f"{number}.npz", x=x, y=np.arange(12) % 2)
        own = {"site": f"ward-{number}", "data": str(tmp_path / f"{number}.npz")}
        nodes[number + 1] = {**own, "state-dir": str(tmp_path / "state")}
    own_data = {"classes": "0, 1", "wait": 0.5, "min-sites": SITES}
    grid = DirectGrid(nodes)
    serve(grid, run_config(given, tmp_path / "run", **own_data))
    assert {client["status"] for client in flr.Run(tmp_path / "run").clients} == {"ok"}
    assert "server.pth" not in str([message.content for message in grid.messages])
    other_weights(file)
    with pytest.raises(RunError, match="failed with DataError"):
        serve(DirectGrid(nodes), run_config(given, tmp_path / "other", **own_data))
    for number in range(SITES):
        np.savez(tmp_path / f"{number}.npz", x=x / 255, y=np.arange(12) % 2)
    with pytest.raises(ConfigError, match="needs images of bytes"):
        serve(DirectGrid(nodes), run_config(given, tmp_path / "floats", **own_data))
