"""The page on pretrained networks, from the folder of images to the file of features."""

from __future__ import annotations

import csv
import re
import shlex
import shutil
import tomllib
from pathlib import Path

import numpy as np
import pytest
import torch

import flr
from flr.config import parse
from flr.models.backbones.efficientnet_lite import Lite0

PAGE = "docs/how-to/use-a-pretrained-network.md"


@pytest.fixture
def photos(blocks, tmp_path, monkeypatch) -> Path:
    """An empty folder in which somebody has followed the page up to its config."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLR_CACHE", str(tmp_path / "cache"))
    exec(compile(blocks(PAGE, "python")[0], PAGE, "exec"), {})  # noqa: S102
    (tmp_path / "photos.toml").write_text(blocks(PAGE, "toml")[0])
    return tmp_path


def commands(blocks) -> list[list[str]]:
    lines = "\n".join(blocks(PAGE, "sh")).splitlines()
    return [shlex.split(line)[1:] for line in lines if line.startswith("flr ")]


def test_its_commands_run_one_after_the_other(blocks, photos, cli):
    asked = commands(blocks)
    assert {words[0] for words in asked} == {"run", "audit", "predict", "evaluate", "embed"}
    for words in asked:
        done = cli(*words)
        assert done.code == 0, (words, done.err)
    with (photos / "audit-photos" / "suspects.csv").open(newline="") as file:
        names = [row["name"] for row in csv.DictReader(file)]
    assert names
    assert all((photos / "photos" / name).is_file() for name in names)
    audited = (photos / "runs" / "flr-1" / "audit").glob("*/audit.html")
    assert {page.parent.name for page in audited} == {*"01234", "test"}
    held = np.load(photos / "features.npz")
    assert held["x"].shape == (300, 1280)
    assert held["x"].dtype == np.float16
    assert cli("evaluate", "runs/flr-1", "features.npz").out == cli(*asked[3]).out
    kept = sum(path.stat().st_size for path in (photos / "cache").rglob("*.safetensors"))
    assert kept == pytest.approx(3 * 300 * 2560, rel=0.01)  # in parts, as a whole, and by lite1


def test_a_network_of_ones_own_is_used(blocks, photos, cli, monkeypatch):
    (photos / "my_networks.py").write_text(blocks(PAGE, "python")[1])
    monkeypatch.syspath_prepend(photos)
    tree = {**tomllib.loads((photos / "photos.toml").read_text()), "rounds": 1, "workers": 1}
    tree["data"]["backbone"] = {"name": "my_networks:Colours", "side": 16}
    run = flr.run(tree, out="runs/own")
    assert run.model().input_shape == (3,)
    assert cli("predict", "runs/own", "photos").code == 0  # one's own run needs no word
    moved = shutil.copy(run.folder / "model.safetensors", photos)
    assert "--trust" in cli("predict", moved, "photos").err
    assert cli("predict", moved, "photos", "--trust").code == 0


def test_weights_of_ones_own_are_found_through_the_run_folder(photos, cli):
    torch.save(Lite0().network().state_dict(), "mine.pt")
    tree = {**tomllib.loads((photos / "photos.toml").read_text()), "rounds": 1, "workers": 1}
    tree["data"]["backbone"] = {"name": "efficientnet-lite0", "weights": "mine.pt"}
    run = flr.run(tree, out="runs/own")
    assert cli("predict", "runs/own", "photos").code == 0
    moved = shutil.copy(run.folder / "model.safetensors", photos)
    refused = cli("predict", moved, "photos")
    assert refused.code == 4
    assert "give the run folder" in " ".join(refused.err.split())


def test_the_values_it_lists_for_the_key_are_read(blocks, root):
    page = (root / PAGE).read_text()
    listed = re.findall(r"\| `(backbone = .*)` \|$", page, re.M)
    assert len(listed) == 6
    for text in listed:
        table = tomllib.loads(text)
        if "timm" in text or "my_networks" in text:
            continue  # need packages that are not installed here
        parse({"rounds": 1, "data": {"name": "folder", "path": "photos", **table}})


def test_the_readme_has_the_same_config(blocks):
    known = tomllib.loads(blocks(PAGE, "toml")[0])
    assert known in [tomllib.loads(text) for text in blocks("README.md", "toml")]
