"""`flr embed`: features as a file that `flr run` reads, or one clear message."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_backbone import NAME, entry, image_folder, images

from flr.data.readers.images import at_once, one_by_one, read_classes
from flr.models.embedding import Embedder

RUN = """rounds = 1
method = "fedavg"
[data]
name = "npz"
path = "{path}"
[partition]
kind = "iid"
clients = 3
[train]
model = "mlp"
epochs = 1
participation = 1.0
"""


def runs_on(cli, npz: Path, tmp_path: Path) -> bool:
    config = tmp_path / "on-features.toml"
    config.write_text(RUN.format(path=npz))
    result = cli("run", config, "--out", tmp_path / "run")
    return result.code == 0 and (tmp_path / "run" / "model.safetensors").is_file()


def test_a_folder(cli, tmp_path):
    image_folder(tmp_path / "in", 30, ("cat", "dog"))
    out = tmp_path / "new" / "out.npz"
    result = cli("embed", tmp_path / "in", "--backbone", NAME, "-o", "width=5", "--out", out)
    assert result.code == 0, result.err
    assert "x 30 x 5, y 30, names 30" in " ".join(result.out.split())
    held = np.load(out)
    assert (held["x"].dtype, held["x"].shape) == (np.float16, (30, 5))
    x = read_classes(tmp_path / "in", one_by_one(6)).x
    assert np.array_equal(held["x"], Embedder(entry(width=5))(x).values[:, 0].numpy())
    assert held["y"].tolist() == ["cat"] * 15 + ["dog"] * 15
    assert held["names"].tolist()[:2] == ["cat/000.png", "cat/002.png"]
    assert runs_on(cli, out, tmp_path)


def test_a_folder_with_a_test_part_by_a_real_backbone(cli, tmp_path):
    image_folder(tmp_path / "in" / "train", 30, ("cat", "dog"))
    image_folder(tmp_path / "in" / "test", 12, ("cat", "dog"), seed=1)
    out = tmp_path / "out.npz"
    lite = ("--backbone", "efficientnet-lite0", "-o", "size=32")
    assert cli("embed", tmp_path / "in", *lite, "--out", out).code == 0
    held = np.load(out)
    assert held["x_train"].shape == (30, 1280)
    assert held["x_test"].shape == (12, 1280)
    assert held["y_test"].tolist() == ["cat"] * 6 + ["dog"] * 6
    assert runs_on(cli, out, tmp_path)


def test_images_without_labels(cli, tmp_path):
    image_folder(tmp_path / "in", 5, ("all",))
    assert cli("embed", tmp_path / "in" / "all", "--backbone", NAME, "--out",
               tmp_path / "o.npz").code == 0  # fmt: skip
    assert sorted(np.load(tmp_path / "o.npz")) == ["names", "x"]


def test_both_parts_of_an_npz(cli, tmp_path):
    x, y = images(40).numpy(), np.arange(40) % 2
    np.savez(tmp_path / "in.npz", x_train=x[:30], y_train=y[:30], x_test=x[30:], y_test=y[30:])
    out = tmp_path / "out.npz"
    assert cli("embed", tmp_path / "in.npz", "--backbone", NAME, "--out", out).code == 0
    held = np.load(out)
    assert held["x_train"].shape == (30, 8)
    assert held["x_test"].shape == (10, 8)
    assert held["y_test"].tolist() == y[30:].tolist()
    assert runs_on(cli, out, tmp_path)


def test_a_data_set_by_name(cli, tmp_path):
    out = tmp_path / "digits.npz"
    assert cli("embed", "digits", "--backbone", NAME, "--out", out).code == 0
    held = np.load(out)
    assert held["x_train"].shape == (1437, 8)
    assert held["x_test"].shape == (360, 8)
    assert held["classes"].tolist() == [str(digit) for digit in range(10)]
    assert runs_on(cli, out, tmp_path)


@pytest.mark.parametrize(
    ("data", "backbone", "options", "out", "code", "words"),
    [
        ("in", "efficientnet-lit0", [], "o.npz", 3, 'Did you mean "efficientnet-lite0"?'),
        ("in", "nowhere:function", [], "o.npz", 3, "nowhere:function"),
        ("in", "tiny_backbone:no_backbone", [], "o.npz", 3, "takes, side, fingerprint, load"),
        ("in", "efficientnet-lite0", ["sise=32"], "o.npz", 3, 'Did you mean "size"?'),
        ("in", "efficientnet-lite0", ["size=8"], "o.npz", 3, "size"),
        ("in", "efficientnet-lite0", ["size"], "o.npz", 3, "size"),
        ("in", "efficientnet-lite0", ["weights=gone.pth"], "o.npz", 4, "gone.pth"),
        ("in", "minilm", [], "o.npz", 3, "takes texts; the data set has images"),
        ("in", NAME, [], "o.csv", 3, "Add the suffix .npz"),
        ("nowhere", NAME, [], "o.npz", 4, "nowhere"),
        ("npz", NAME, [], "o.npz", 4, "is a kind of file"),
        ("folder", NAME, [], "o.npz", 4, "is a kind of file"),
        ("features.npz", NAME, [], "o.npz", 3, "the data set has inputs of shape (4,)"),
        ("in", NAME, [], "in/o.npz/o.npz", 4, "o.npz"),
    ],
)
def test_wrong_calls(data, backbone, options, out, code, words, cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    image_folder(tmp_path / "in", 4, ("a", "b"))
    (tmp_path / "in" / "o.npz").write_text("a file where a folder should be")
    np.savez(tmp_path / "features.npz", x=np.zeros((3, 4), np.float32), y=np.arange(3))
    more = [part for option in options for part in ("-o", option)]
    result = cli("embed", data, "--backbone", backbone, *more, "--out", out)
    assert result.code == code
    assert words in result.message
    assert "Traceback" not in result.err + result.out
    assert not list(tmp_path.glob("o.*"))


def test_the_file_has_the_features_of_the_images(cli, tmp_path):
    """Whoever reads images at once, all of one size, gets the same features as from disk."""
    image_folder(tmp_path / "in", 10, ("a", "b"))
    cli("embed", tmp_path / "in", "--backbone", NAME, "--out", tmp_path / "o.npz")
    x = read_classes(tmp_path / "in", at_once(6)).x
    held = torch.from_numpy(np.load(tmp_path / "o.npz")["x"])
    assert torch.equal(held, Embedder(entry())(x).values[:, 0])
