"""The networks of the paper: their sizes, their layout, and two steps of each preset."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import flr
from flr.core import registry, seeds
from flr.core.errors import ConfigError
from flr.data.dataset import Dataset, LabeledData, Normalization
from flr.models import networks, resnets
from flr.simulation.build import threads

STAGES = (3, 4, 6, 3)  # of ResNet-34 and ResNet-50


@pytest.fixture(autouse=True)
def _one_thread():
    """As a run has it; several get in each other's way on a busy machine."""
    with threads(1):
        yield


def parameters(network: nn.Module) -> int:
    return sum(value.numel() for value in network.parameters())


def basic_blocks(stages: tuple[int, ...], classes: int) -> int:
    """Weights of a CIFAR ResNet of basic blocks, counted from the architecture."""
    total, before = 3 * 64 * 9 + 2 * 64, 64
    for stage, count in enumerate(stages):
        after = 64 * 2**stage
        for _ in range(count):
            total += 9 * before * after + 9 * after * after + 4 * after
            total += before * after + 2 * after if before != after else 0
            before = after
    return total + (before + 1) * classes


def test_sizes_of_the_papers_networks():
    small = parameters(resnets.resnet18((3, 32, 32), 10))
    assert small == basic_blocks((2, 2, 2, 2), 10) == 11_173_962
    assert parameters(resnets.resnet34((3, 32, 32), 100)) == basic_blocks(STAGES, 100)
    assert parameters(resnets.resnet50((3, 224, 224), 1000)) == 25_557_032  # torchvision's figure


def torchvision_names() -> dict[str, tuple[int, ...]]:
    """Name and shape of every entry of torchvision's resnet50().state_dict()."""
    names: dict[str, tuple[int, ...]] = {"fc.weight": (1000, 2048), "fc.bias": (1000,)}

    def convolution(name: str, norm: str, before: int, after: int, size: int) -> None:
        names[f"{name}.weight"] = (after, before, size, size)
        for key in ("weight", "bias", "running_mean", "running_var"):
            names[f"{norm}.{key}"] = (after,)
        names[f"{norm}.num_batches_tracked"] = ()

    convolution("conv1", "bn1", 3, 64, 7)
    before = 64
    for stage, count in enumerate(STAGES, start=1):
        inside = 32 * 2**stage
        for number in range(count):
            at = f"layer{stage}.{number}"
            convolution(f"{at}.conv1", f"{at}.bn1", before, inside, 1)
            convolution(f"{at}.conv2", f"{at}.bn2", inside, inside, 3)
            convolution(f"{at}.conv3", f"{at}.bn3", inside, 4 * inside, 1)
            if number == 0:
                convolution(f"{at}.downsample.0", f"{at}.downsample.1", before, 4 * inside, 1)
            before = 4 * inside
    return names


def test_resnet50_has_torchvisions_names_and_shapes():
    state = resnets.resnet50((3, 224, 224), 1000).state_dict()
    assert {name: tuple(value.shape) for name, value in state.items()} == torchvision_names()
    assert len(state) == 320


def test_no_residual_branch_of_resnet50_starts_at_zero():
    state = resnets.resnet50((3, 32, 32), 10, width=8).state_dict()
    scales = [v for name, v in state.items() if v.ndim == 1 and name.endswith("weight")]
    assert all(bool((value == 1).all()) for value in scales)
    convolution = state["layer2.0.conv2.weight"]  # 16 x 16 x 3 x 3: std = sqrt(2 / (16 * 9))
    assert float(convolution.std()) == pytest.approx(math.sqrt(2 / 144), rel=0.1)


def by_the_book(w: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    """ResNet-50 v1.5 from named weights alone, in eval mode."""

    def normed(x: torch.Tensor, conv: str, norm: str, stride: int, padding: int) -> torch.Tensor:
        x = F.conv2d(x, w[f"{conv}.weight"], None, stride, padding)
        keys = ("running_mean", "running_var", "weight", "bias")
        return F.batch_norm(x, *(w[f"{norm}.{key}"] for key in keys))

    x = F.max_pool2d(normed(x, "conv1", "bn1", 2, 3).relu(), 3, 2, 1)
    for stage, count in enumerate(STAGES, start=1):
        for number in range(count):
            at, stride = f"layer{stage}.{number}", 2 if stage > 1 and number == 0 else 1
            out = normed(x, f"{at}.conv1", f"{at}.bn1", 1, 0).relu()
            out = normed(out, f"{at}.conv2", f"{at}.bn2", stride, 1).relu()
            out = normed(out, f"{at}.conv3", f"{at}.bn3", 1, 0)
            if number == 0:
                x = normed(x, f"{at}.downsample.0", f"{at}.downsample.1", stride, 0)
            x = (out + x).relu()
    return F.linear(x.mean((2, 3)), w["fc.weight"], w["fc.bias"])


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 45, 70)])
def test_resnet50_computes_what_the_architecture_says(shape):
    network = networks.build(lambda s, c: resnets.resnet50(s, c, width=8), shape, 14, 1, seed=5)[0]
    x = torch.randn(4, *shape, generator=torch.Generator().manual_seed(1))
    network.train()(x).sum().backward()  # moves the running statistics away from 0 and 1
    with torch.no_grad():
        logits, features = networks.embed(network.eval(), x)
        torch.testing.assert_close(logits, by_the_book(network.state_dict(), x))
        torch.testing.assert_close(network.fc(features), logits)
    assert features.shape == (4, networks.features(network)) == (4, 4 * 64)


def test_features_need_a_linear_layer():
    network = nn.Sequential(nn.Conv2d(1, 3, 8), nn.Flatten())
    assert networks.features(network) == 0
    with pytest.raises(ConfigError, match="no linear layer"):
        networks.embed(network, torch.zeros(2, 1, 8, 8))


@pytest.mark.parametrize("name", ["cnn", "resnet18", "resnet34", "resnet50"])
def test_networks_for_images_refuse_features(name):
    with pytest.raises(ConfigError, match="needs images"):
        registry.get("model", name).factory((7,), 2)


@pytest.mark.parametrize(
    ("preset", "network", "batch", "classes", "side"),
    [
        ("cifar10", "resnet18", 10, 10, 32),
        ("cifar100", "resnet34", 10, 100, 32),
        ("clothing1m", "resnet50", 16, 14, 64),  # smaller pictures, for speed
    ],
)
def test_two_steps_of_a_preset(preset, network, batch, classes, side, tmp_path):
    """The paper's network, batch size and method; one client with two batches of random pixels."""
    rng = torch.Generator().manual_seed(3)
    x = torch.randint(0, 256, (2 * batch, 3, side, side), dtype=torch.uint8, generator=rng)
    part = LabeledData(x, torch.arange(2 * batch) % classes)
    names = tuple(str(number) for number in range(classes))
    scale = Normalization((127.5,) * 3, (74.0,) * 3)
    data = Dataset("pixels", part, part[torch.arange(4)], names, scale, augment="crop-flip")
    one = {"partition": {"clients": 1}, "train": {"epochs": 1}, "rounds": 1, "workers": 1}
    method = {"warmup_rounds": 0} if preset == "clothing1m" else {}  # it has 50, and this one round
    done = flr.run({"preset": preset, "method": method, **one}, data=data, out=tmp_path / "run")
    train = done.config.train
    assert (train.model.name, train.batch) == (network, batch)
    assert math.isfinite(done.summary["accuracy"]["last"])
    state = done.model().networks.state_dict()
    counters = {int(v) for k, v in state.items() if k.endswith("num_batches_tracked")}
    assert counters == {2}


def test_the_plain_mlp_is_what_it_was():
    """Names and first weights, as a file of an earlier version has them."""
    made = networks.build(networks.mlp, (1, 8, 8), 10, 1, seed=3)[0]
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seeds.derive(3, "init", 0))
        expected = [nn.Linear(64, 128), nn.Linear(128, 10)]
    values = [value for layer in expected for value in (layer.weight, layer.bias)]
    names = ["body.1.weight", "body.1.bias", "head.weight", "head.bias"]
    assert list(made.state_dict()) == names
    assert all(map(torch.equal, made.state_dict().values(), values))


def test_norm_and_dropout_of_the_mlp_stand_around_each_relu():
    made = networks.mlp((6,), 3, hidden=5, layers=2, dropout=0.5, norm="layer")
    layer = ["Linear", "LayerNorm", "ReLU", "Dropout"]
    assert [type(part).__name__ for part in made.body] == ["Flatten", *layer, *layer]
    batch = networks.mlp((6,), 3, norm="batch").state_dict()
    assert {"body.2.running_mean", "body.2.num_batches_tracked"} <= batch.keys()


def test_linear_is_one_affine_map_of_the_flat_inputs():
    made = networks.linear((2, 3), 4)
    x = torch.randn(5, 2, 3, generator=torch.Generator().manual_seed(2))
    torch.testing.assert_close(made(x), x.flatten(1) @ made.head.weight.T + made.head.bias)
    assert parameters(made) == 4 * 6 + 4
    assert networks.features(made) == 6


@pytest.mark.parametrize("model", ["linear", {"name": "mlp", "dropout": 0.5, "norm": "batch"}])
def test_models_on_features_give_the_same_bits_with_any_number_of_workers(model, tmp_path):
    small = {"rounds": 2, "data": {"train": 60, "test": 20}, "partition": {"clients": 4}}
    small["train"] = {"model": model, "epochs": 1, "participation": 1.0}
    runs = [flr.run({**small, "workers": n}, out=tmp_path / str(n)) for n in (1, 2)]
    first, second = ((run.folder / "model.safetensors").read_bytes() for run in runs)
    assert first == second
