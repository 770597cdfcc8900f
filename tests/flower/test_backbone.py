"""Sites that make features of their own images: what they send, and the same bits everywhere."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_backbone
import torch
from direct import DirectGrid, run_config, train_on_flower
from flwr.app import Message
from tiny_backbone import NAME, entry, image_folder, images
from toys import bits

import flr
from flr.core import arrays
from flr.core.errors import RunError
from flr.data.sources.files import read_samples
from flr.flower import site_cache, wire
from flr.flower.check_app import check_app
from flr.flower.local.loopback import Loopback
from flr.flower.new_app import write_app
from flr.flower.server import serve
from flr.models.embedding import Embedder
from flr.simulation.api import Run

SITES = 3
CLASSES = ("cat", "dog")
LITE = {"name": "efficientnet-lite0", "size": 64}
OWN = {"classes": "cat, dog", "min-sites": SITES, "wait": 120.0}
TRAIN = {"model": "mlp", "participation": 1.0, "epochs": 2, "batch": 10, "lr": 0.1}

RECORDING = """

import itertools
from pathlib import Path

from flwr.clientapp import ClientApp

from flr.core import arrays
from flr.flower import wire

inner = app


class Recording(ClientApp):
    def __call__(self, message, context):
        reply = inner(message, context)
        folder = Path(context.node_config["state-dir"]) / "replies"
        place = next(p for k in itertools.count() if not (p := folder / str(k)).exists())
        note, sent = wire.read(reply.content)
        kinds = [*reply.content.array_records, *reply.content.config_records]
        kinds += list(reply.content.metric_records)
        arrays.save(place, sent, {"note": note, "records": sorted(kinds)})
        return reply


app = Recording()
"""


@pytest.fixture(autouse=True)
def fresh() -> None:
    for kept in (site_cache.scenario, site_cache.samples, site_cache._raw, site_cache.worker):
        kept.cache_clear()


@pytest.fixture
def folders(tmp_path: Path) -> dict[str, Path]:
    """Images at three sites, and some at the server to test on."""
    image_folder(tmp_path / "test", 16, CLASSES, seed=9)
    return {
        f"ward-{k}": image_folder(tmp_path / f"ward-{k}", 24 + 2 * k, CLASSES, seed=k)
        for k in range(SITES)
    }


def settings(backbone: Any = NAME, method: Any = "flr", **changes: Any) -> dict[str, Any]:
    data = {"backbone": backbone, "views": 2}
    return {"seed": 3, "rounds": 2, "method": method, "data": data, "train": TRAIN, **changes}


def nodes(folders: dict[str, Path], state: Path) -> dict[int, dict[str, Any]]:
    return {
        100 + k: {"site": site, "data": str(path), "state-dir": str(state / site)}
        for k, (site, path) in enumerate(folders.items())
    }


class Listening(DirectGrid):
    """Keeps what every site answers."""

    def __init__(self, nodes: Any) -> None:
        super().__init__(nodes)
        self.heard: list[tuple[dict[str, Any], arrays.Arrays]] = []

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        found = super().pull_messages(message_ids)
        self.heard += [wire.read(reply.content) for reply in found]
        return found


def private(folders: dict[str, Path], backbone: Any) -> list[bytes]:
    """Features and pixels of every sample, as they would lie in a message."""
    embedder, found = Embedder(entry(**backbone)), []
    for path in folders.values():
        x = read_samples(path, CLASSES, training=True, **embedder.reading)[0]
        values = embedder(x, 2).values
        for kind in (torch.float16, torch.float32, torch.float64):
            found += [row.to(kind).numpy().tobytes() for row in values.flatten(0, 1)]
        found += [pixels.numpy().tobytes() for pixels in x[:]]
    return found


def check_replies(
    heard: list[tuple[dict[str, Any], arrays.Arrays]],
    folders: dict[str, Path],
    backbone: dict[str, Any],
    weights: arrays.Arrays,
    declared: set[str],
) -> None:
    """Only weights and what the method declares leave, and no feature or pixel among them."""
    said = {frozenset(note) for note, _ in heard}
    assert said == {
        frozenset({"site", "examples", "shape", "dtype"}),
        frozenset({"site", "examples", "stateful", "seconds"}),
    }
    shapes = {name: value.shape for name, value in weights.items()}
    trained = [sent for _, sent in heard if sent]
    assert len(trained) >= SITES
    secret = private(folders, backbone)
    sizes = {len(list(path.rglob("*.png"))) for path in folders.values()}
    for note, sent in heard:
        assert sent.keys() <= shapes.keys() | declared
        for name, value in sent.items():
            assert value.shape == shapes.get(name, value.shape)
            assert not (value.dim() and len(value) in sizes), "one row for each sample"
        content = json.dumps(note).encode() + b"".join(v.numpy().tobytes() for v in sent.values())
        assert not any(row in content for row in secret)


def test_a_scenario_gives_the_bits_of_one_process(tmp_path):
    np.savez(tmp_path / "images.npz", x=images(120).numpy(), y=np.arange(120) % 3)
    config = settings(partition={"kind": "iid", "clients": 4}) | {"workers": 1}
    config["data"] |= {"name": "npz", "path": str(tmp_path / "images.npz")}
    config["noise"] = {"kind": "symmetric", "clients": 1.0, "floor": 0.3}
    train_on_flower(config, tmp_path / "flower", tmp_path / "state", 4)
    here = flr.run(config, out=tmp_path / "here")
    assert bits(Run(tmp_path / "flower")) == bits(here)


@pytest.mark.parametrize("method", ["flr", "fedcorr"])
def test_only_what_is_declared_leaves_a_site(method, folders, tmp_path):
    chosen = {"name": method, "iterations": 1} if method == "fedcorr" else method
    backbone = {"name": NAME}
    grid = Listening(nodes(folders, tmp_path / "state"))
    config = settings(backbone, chosen, rounds=4)
    serve(grid, run_config(config, tmp_path / "run", **OWN, test=str(tmp_path / "test")))
    run = Run(tmp_path / "run")
    weights, _ = arrays.load(run.folder / "model.safetensors")
    sends = {declared.name for declared in run.config.build_method().traits.sends}
    check_replies(grid.heard, folders, backbone, weights, sends)
    sent = str([m.content for m in grid.messages])
    assert str(tmp_path) not in sent, "the server's paths are its own"


def test_sites_whose_backbone_has_other_weights_are_left_out(folders, tmp_path, monkeypatch):
    real = site_cache.check_weights

    def at_site(embedder: Embedder, expected: str) -> None:
        with monkeypatch.context() as there:  # another version of the package than at the server
            there.setattr(tiny_backbone.Projection, "fingerprint", lambda _: "f" * 64)
            real(embedder, expected)

    monkeypatch.setattr(site_cache, "check_weights", at_site)
    with pytest.raises(RunError, match="the packages that the config names"):
        serve(
            DirectGrid(nodes(folders, tmp_path / "state")),
            run_config(settings(), tmp_path / "run", **OWN | {"wait": 0.5}),
        )
    simulated = settings() | {"partition": {"kind": "iid", "clients": 1}}
    with pytest.raises(RunError, match="the packages that the config names"):
        serve(
            DirectGrid({7: {"partition-id": 0, "state-dir": str(tmp_path / "state")}}),
            run_config(simulated, tmp_path / "simulated", wait=0.5),
        )


def test_a_corrupt_image_is_said_at_the_site_only(folders, tmp_path, caplog):
    bad = max(folders["ward-1"].rglob("*.png"))
    bad.write_bytes(b"no image")
    grid = Listening(nodes(folders, tmp_path / "state"))
    serve(grid, run_config(settings(), tmp_path / "run", **OWN | {"wait": 0.5}))
    assert str(bad) in caplog.text
    theirs = [line for line in Run(tmp_path / "run").clients if line["site"] == "ward-1"]
    assert {line["status"] for line in theirs} == {"refused"}
    assert all("its log" in line["reason"] for line in theirs)
    assert not any(bad.name in json.dumps(note) for note, _ in grid.heard)
    site_cache.samples.cache_clear()
    bad.unlink()
    again = DirectGrid(nodes(folders, tmp_path / "state"))
    serve(again, run_config(settings(), tmp_path / "mended", **OWN))
    assert {line["status"] for line in Run(tmp_path / "mended").clients} == {"ok"}


def test_a_backbone_that_a_site_does_not_know_is_said(folders, tmp_path, monkeypatch):
    real = site_cache.parse_entry

    def older(kind: str, raw: Any, **more: Any) -> Any:
        return real(kind, "efficientnet-lite9", **more)

    monkeypatch.setattr(site_cache, "parse_entry", older)
    with pytest.raises(RunError, match="Has it the same version of flr"):
        serve(
            DirectGrid(nodes(folders, tmp_path / "state")),
            run_config(settings(), tmp_path / "run", **OWN | {"wait": 0.5}),
        )


def test_real_nodes_send_the_same_bits_and_nothing_else(folders, tmp_path):
    config, test = settings(LITE), str(tmp_path / "test")
    serve(
        DirectGrid(nodes(folders, tmp_path / "state")),
        run_config(config, tmp_path / "here", **OWN, test=test),
    )
    app = write_app(tmp_path / "three-wards")
    changed = {
        "seed": 3,
        "rounds": 2,
        "set": "data.backbone.name='efficientnet-lite0'; data.backbone.size=64; data.views=2",
        **{f"train.{key}": value for key, value in TRAIN.items()},
        **{f"flower.{key}": value for key, value in OWN.items()},
        "train.momentum": Run(tmp_path / "here").config.train.momentum,
        "flower.test": test,
        "flower.out": str(tmp_path / "there"),
    }
    said = [f"{k}={json.dumps(v)}" for k, v in changed.items()]
    assert "the data of 3 sites or more, 2 classes" in check_app(app, [" ".join(said)])
    with (app / "three_wards" / "client_app.py").open("a") as file:
        file.write(RECORDING)
    with Loopback(tmp_path / "federation") as federation:
        for site, node in zip(folders, nodes(folders, tmp_path / "real").values(), strict=True):
            federation.add_node(site, node)
        federation.wait_for_nodes()
        number = federation.run(app, changed)
        status = federation.wait(number, timeout=900)
        assert status == "finished:completed", federation.run_log(number).read_text()
    there = Run(tmp_path / "there")
    assert bits(there) == bits(Run(tmp_path / "here"))
    assert there.metrics[-1]["accuracy"] > 0.5
    heard = [arrays.load(path) for path in sorted((tmp_path / "real").glob("*/replies/*"))]
    assert len(heard) == SITES * 3
    assert {tuple(meta["records"]) for _, meta in heard} <= {("arrays", "note"), ("note",)}
    weights, _ = arrays.load(there.folder / "model.safetensors")
    check_replies([(meta["note"], sent) for sent, meta in heard], folders, LITE, weights, set())
