"""A model on features takes raw images; whatever is wrong with backbone or data is said once."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import tiny_backbone
import torch
from tiny_backbone import NAME, entry, image_folder, images

import flr
from flr.core import arrays
from flr.core.errors import DataError
from flr.models import model_file
from flr.models.backbones.efficientnet_lite import Lite0
from flr.models.embedding import Embedder

CLASSES = ("cat", "dog", "owl")
LITE = {"name": "efficientnet-lite0", "size": 32}


def settings(path: Path, backbone: Any, **data: Any) -> dict[str, Any]:
    return {
        "seed": 1,
        "rounds": 8,
        "workers": 1,
        "method": "flr",
        "data": {"name": "folder", "path": str(path), "backbone": backbone, **data},
        "partition": {"kind": "iid", "clients": 3},
        "train": {"model": "mlp", "participation": 1.0, "epochs": 5, "batch": 10},
    }


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """Images in folders, and what was trained on their features."""
    root = tmp_path_factory.mktemp("trained")
    image_folder(root / "images", 90, CLASSES)
    for name, backbone in (("tiny", NAME), ("lite", LITE)):
        flr.run(settings(root / "images", backbone, views=2), out=root / name)
    return root


@pytest.fixture
def model(place, tmp_path) -> Path:
    """A model file on features of efficientnet-lite0, to be spoiled."""
    return shutil.copy(place / "lite" / "model.safetensors", tmp_path / "model.safetensors")


def spoil(path: Path, **changes: Any) -> None:
    """Another backbone in the model file than the one it was trained on."""
    weights, meta = arrays.load(path)
    arrays.save(path, weights, {**meta, "backbone": {**meta["backbone"], **changes}})


@pytest.mark.parametrize("kind", ["tiny", "lite"])
def test_raw_images_are_taken_wherever_a_model_is_used(kind, place, cli, tmp_path):
    file = place / kind / "model.safetensors"
    trust = ["--trust"] if kind == "tiny" else []
    said = cli("predict", file, place / "images", *trust)
    rows = list(csv.DictReader(said.out.splitlines()))
    assert said.code == 0, said.err
    right = [row["sample"].split("/")[0] == row["predicted"] for row in rows]
    assert len(right) == 90
    assert sum(right) > 70
    said = cli("evaluate", file, place / "images", "--json", *trust)
    assert f'"accuracy": {sum(right) / 90}' in said.out
    out = tmp_path / "audit"
    said = cli("audit", "--data", place / "images", "--model", file, *trust, "--out", out)
    assert said.code == 0, said.err
    assert (out / "audit.html").is_file()
    assert cli("audit", place / kind, "--out", tmp_path / "of-run").code == 0


def test_images_of_an_npz_and_their_features_are_the_same(place, cli, tmp_path):
    x = images(12, side=20)
    np.savez(tmp_path / "images.npz", x=x.numpy())
    cli("embed", tmp_path / "images.npz", "--backbone", LITE["name"], "-o", "size=32",
        "--out", tmp_path / "features.npz")  # fmt: skip
    found = [cli("predict", place / "lite", tmp_path / f"{n}.npz") for n in ("images", "features")]
    assert found[0].code == 0, found[0].err
    assert found[0].out == found[1].out
    loaded = model_file.load(place / "lite")
    values = Embedder(entry(**LITE))(x)
    assert torch.equal(loaded.probabilities(x), loaded.probabilities(values[:]))


@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_other_inputs_are_refused(command, place, cli, tmp_path):
    np.savez(tmp_path / "wide.npz", x=np.zeros((4, 7), np.float32), y=np.array(["cat"] * 4))
    result = cli(command, place / "lite", tmp_path / "wide.npz")
    assert result.code == 4
    assert "expects images for its backbone, or features of shape (1280,)" in result.message
    assert "Traceback" not in result.err


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"fingerprint": "0" * 64}, "fingerprint 000000000000"),
        ({"fingerprint": 7}, "expected a backbone with its fingerprint"),
        ({"name": "efficientnet-lite9"}, "expected a backbone that this flr knows"),
        ({"size": "large"}, "expected a backbone that this flr knows"),
        ({"weights": "/nowhere/gone.pth"}, "gone.pth"),
    ],
    ids=str,
)
def test_a_model_file_with_another_backbone_is_refused(change, words, model, cli, place):
    spoil(model, **change)
    result = cli("predict", model, place / "images")
    assert result.code == 4
    assert words in result.message
    assert "Traceback" not in result.err


def test_code_that_a_model_file_names_needs_trust(place, cli):
    own = place / "tiny" / "model.safetensors"
    assert cli("predict", own, place / "images").code == 0  # one's own run needs no word
    copy = shutil.copy(own, place / "named.safetensors")
    result = cli("predict", copy, place / "images")
    assert result.code == 4
    assert NAME in result.message
    assert "--trust" in result.message
    spec = "nowhere_at_all:function"
    spoil(copy, name=spec)
    assert "--trust" in cli("predict", copy, place / "images").message
    result = cli("predict", copy, place / "images", "--trust")
    assert result.code == 3, "the file is not to blame"
    assert spec in result.message


def test_other_weights_behind_the_same_name_are_noticed(place, monkeypatch):
    monkeypatch.setattr(tiny_backbone.Projection, "fingerprint", lambda _: "f" * 64)
    with pytest.raises(DataError, match="fingerprint"):
        model_file.load(place / "tiny", trust=True)


def test_a_file_of_ones_own_weights_is_used_again(place, cli, tmp_path):
    own = tmp_path / "mine" / "own.safetensors"
    own.parent.mkdir()
    saved = torch.load(Lite0()._file(), weights_only=True)
    safetensors.torch.save_file({n: v.float().contiguous() for n, v in saved.items()}, own)
    config = settings(place / "images", {**LITE, "weights": str(own)}) | {"rounds": 1}
    run = flr.run(config, out=tmp_path / "run")
    assert cli("predict", run.folder, place / "images").code == 0
    own.unlink()
    result = cli("predict", run.folder, place / "images")
    assert result.code == 4
    assert "own.safetensors" in result.message


CONFIG = """rounds = 1
method = "fedavg"
[data]
{data}
[partition]
kind = "iid"
clients = 2
[train]
model = "mlp"
"""
FOLDER = 'name = "folder"\npath = "in"\n'
NPZ = 'name = "npz"\npath = "{}.npz"\n'
TINY, SMALL = f'backbone = "{NAME}"\n', 'backbone = { name = "efficientnet-lite0", size = 32 }\n'

# what is wrong -> (the table [data], exit code, parts of the message)
WRONG = {
    "corrupt image": (FOLDER + TINY, 4, ["in/b/001.png", "Replace or remove it"]),
    "images for texts": (FOLDER + 'backbone = "minilm"', 3, ["takes texts", "has images"]),
    "features": (NPZ.format("wide") + TINY, 3, ["takes images", "shape (5,)"]),
    "texts for images": ('name = "texts"\npath = "texts.csv"\ntext = "said"\n' + SMALL, 3,
                         ["takes images", "has texts"]),
    "views of texts": (
        'name = "texts"\npath = "texts.csv"\ntext = "said"\nbackbone = "wordllama"\nviews = 2',
        3,
        ["views = 2 shows parts of images"],
    ),
    "four channels": (NPZ.format("four") + SMALL, 3, ["one or three channels", "4 channels"]),
    "float images": (NPZ.format("float") + SMALL, 3, ["8 bits", "float32"]),
    "weights that do not fit": (
        FOLDER + 'backbone = { name = "efficientnet-lite0", weights = "bad.safetensors" }',
        4,
        ["bad.safetensors"],
    ),
    "weights that are none": (
        FOLDER + 'backbone = { name = "efficientnet-lite0", weights = "in/b/003.png" }',
        4,
        ["003.png"],
    ),
    "augment": (FOLDER + TINY + 'augment = "crop-flip"', 3, ["augment", "Use views instead"]),
    "views of nothing": (FOLDER + "views = 2", 3, ["views", "Add backbone"]),
    "too many views": (FOLDER + TINY + "views = 65", 3, ["views", "65"]),
    "misspelt": (FOLDER + 'backbone = "efficientnet-lit0"', 3, ['"efficientnet-lite0"?']),
    "misspelt option": (FOLDER + 'backbone = { name = "minilm", sice = 3 }', 3, ["sice"]),
    "no backbone": (FOLDER + 'backbone = "tiny_backbone:no_backbone"', 3, ["takes, side"]),
    "noise on inputs": (
        NPZ.format("good") + TINY + '[noise]\nkind = "features"',
        3,
        ["noise on inputs", "features"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_broken_input_is_one_clear_message(case, cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data, code, parts = WRONG[case]
    image_folder(tmp_path / "in", 8, ("a", "b"))
    if case == "corrupt image":
        (tmp_path / "in" / "b" / "001.png").write_bytes(b"\x89PNG\r\n\x1a\n and no more")
    lines = [f"word {i},{i % 2}" for i in range(8)]
    (tmp_path / "texts.csv").write_text("\n".join(["said,label", *lines]))
    y = np.arange(8) % 2
    np.savez(tmp_path / "wide.npz", x=np.random.default_rng(0).normal(size=(8, 5)), y=y)
    np.savez(tmp_path / "four.npz", x=images(8, channels=4).numpy(), y=y)
    np.savez(tmp_path / "float.npz", x=images(8).float().numpy() / 255, y=y)
    np.savez(tmp_path / "good.npz", x=images(8).numpy(), y=y)
    safetensors.torch.save_file({"a": torch.zeros(2)}, tmp_path / "bad.safetensors")
    (tmp_path / "experiment.toml").write_text(CONFIG.format(data=data))
    result = cli("run", "experiment.toml")
    assert result.code == code
    for part in parts:
        assert part in result.message
    assert "Traceback" not in result.err + result.out
    assert not (tmp_path / "runs").exists(), "a bad config must not leave a run folder"
