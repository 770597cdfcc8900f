"""Features once: the same bits whoever computes them, in whatever order, however often stopped."""

from __future__ import annotations

import hashlib
import logging
from typing import Any

import pytest
import tiny_backbone
import torch
from tiny_backbone import NAME, entry, image_folder, images
from torch import Tensor

import flr
from flr.core.errors import ConfigError, DataError
from flr.data.features import Features
from flr.data.on_disk import Pictures
from flr.data.readers.images import one_by_one, read_classes
from flr.data.texts import Texts
from flr.models import embedding
from flr.models.embedding import BATCH, PIECE, Embedder

LITE = {"name": "efficientnet-lite0", "size": 32}
CONFIG: dict[str, Any] = {
    "seed": 4,
    "rounds": 2,
    "workers": 1,
    "method": "flr",
    "data": {"backbone": NAME, "views": 3},
    "partition": {"kind": "iid", "clients": 4},
    "noise": {"kind": "symmetric", "clients": 1.0, "floor": 0.3},
    "train": {"model": "mlp", "participation": 1.0, "epochs": 2, "batch": 10},
}


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    """No pass of another test is counted, and nothing breaks."""
    monkeypatch.setattr(tiny_backbone, "calls", [])
    monkeypatch.setattr(tiny_backbone, "broken", [])


def passes(n: int, views: int = 1) -> int:
    """How many forward passes so many samples need."""
    pieces = [min(PIECE, n - at) for at in range(0, n, PIECE)]
    return views * sum(-(-piece // BATCH) for piece in pieces)


def test_cold_or_warm_one_worker_or_two(cache, tmp_path, monkeypatch):
    x = images(600)
    first = Embedder(entry(), 1)(x, views=3).values
    assert first.dtype == torch.float16
    assert first.shape == (600, 3, 8)
    assert tiny_backbone.calls == [BATCH] * passes(600, 3)
    assert torch.equal(Embedder(entry(), 2)(x, views=3).values, first)
    assert len(tiny_backbone.calls) == passes(600, 3), "all came from the cache"
    monkeypatch.setenv("FLR_CACHE", str(tmp_path / "another"))
    assert torch.equal(Embedder(entry(), 2)(x, views=3).values, first)
    assert len(tiny_backbone.calls) == 2 * passes(600, 3)


@pytest.mark.parametrize("workers", [1, 2])
def test_an_embedding_that_was_stopped_computes_only_what_is_missing(workers, cache):
    x = images(1100)
    tiny_backbone.broken[:] = [20]
    with pytest.raises(tiny_backbone.OutOfOrderError):
        Embedder(entry(), workers)(x)
    kept = len(list(cache.rglob("*.safetensors")))
    assert 1 <= kept <= 2
    tiny_backbone.broken.clear()
    tiny_backbone.calls.clear()
    found = Embedder(entry(), workers)(x)
    assert len(tiny_backbone.calls) == passes(1100) - kept * PIECE // BATCH
    whole = torch.cat([Embedder(entry())(part).values for part in x.split(256)])
    assert torch.equal(found.values, whole)


@pytest.mark.parametrize("backbone", [entry(), entry(**LITE)], ids=["tiny", "lite0"])
def test_a_sample_has_the_same_features_in_any_company(backbone):
    x = images(70)
    whole = Embedder(backbone)(x, views=2).values
    order = torch.randperm(70, generator=torch.Generator().manual_seed(1))
    for rows in (order, order[:33], order[:1], torch.tensor([5, 5, 5])):
        assert torch.equal(Embedder(backbone, 2)(x[rows], views=2).values, whole[rows])


def test_pictures_on_disk_have_the_features_of_their_pixels(tmp_path):
    image_folder(tmp_path / "in", 40, ("a", "b"))
    x = read_classes(tmp_path / "in", one_by_one(6)).x
    assert isinstance(x, Pictures)
    there = Embedder(entry())(x)
    assert torch.equal(there.values, Embedder(entry())(x[:]).values)
    some = torch.tensor([7, 3, 30])
    assert torch.equal(Embedder(entry(), 2)(x.take(some), 4).values[:, 0], there.values[some, 0])


def test_another_backbone_option_weights_or_view_is_another_cache(cache):
    x = images(5)
    for backbone, views in ((entry(), 1), (entry(width=9), 1), (entry(salt=1), 1), (entry(), 2)):
        Embedder(backbone)(x, views)
    assert len(list((cache / "features").iterdir())) == 4
    assert tiny_backbone.calls == [BATCH] * 5


def test_views_are_parts_of_the_sample_drawn_by_its_content():
    x = images(6, side=64)
    found = Embedder(entry())(x, views=5).values
    assert torch.equal(found[:, :1], Embedder(entry())(x).values)
    assert torch.equal(found[:, :3], Embedder(entry())(x, views=3).values)
    for sample in found:
        assert len({tuple(view.tolist()) for view in sample}) == 5


def test_the_callers_number_of_threads_stays():
    before = torch.get_num_threads()
    Embedder(entry(), 2)(images(40))
    assert torch.get_num_threads() == before


def bits(run: flr.Run) -> str:
    return hashlib.sha256((run.folder / "model.safetensors").read_bytes()).hexdigest()


@pytest.mark.parametrize("backbone", [NAME, LITE], ids=["tiny", "lite0"])
def test_a_run_has_the_same_bits_cold_warm_stopped_and_with_two_workers(
    backbone, tmp_path, monkeypatch
):
    x, y = images(300), torch.arange(300) % 3
    config = {**CONFIG, "data": {"backbone": backbone, "views": 2}}
    first = bits(flr.run(config, data=(x, y), out=tmp_path / "cold"))
    assert bits(flr.run(config, data=(x, y), out=tmp_path / "warm")) == first
    monkeypatch.setenv("FLR_CACHE", str(tmp_path / "another"))
    if backbone == NAME:
        tiny_backbone.calls.clear()
        tiny_backbone.broken[:] = [passes(240, 2)]
        with pytest.raises(tiny_backbone.OutOfOrderError):
            flr.run(config, data=(x, y), out=tmp_path / "stopped")
        tiny_backbone.broken.clear()
    again = flr.run({**config, "workers": 2}, data=(x, y), out=tmp_path / "again")
    assert bits(again) == first


@pytest.mark.parametrize(
    ("backbone", "x", "views", "words"),
    [
        (LITE, Texts.of(["a b", "c"]), 1, "takes images; the data set has texts"),
        (LITE, torch.rand(4, 7), 1, "takes images; the data set has inputs of shape (7,)"),
        (LITE, Features(torch.rand(4, 1, 7).half()), 1, "has inputs of shape (7,)"),
        (LITE, torch.rand(4, 3, 8, 8), 1, "3 channels of torch.float32"),
        (LITE, images(4, channels=4), 1, "4 channels of torch.uint8"),
        ({"name": "minilm"}, images(4), 1, "takes texts; the data set has images"),
        ({"name": "minilm"}, Texts.of(["a b", "c"]), 2, "views = 2 shows parts of images"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_inputs_that_a_backbone_does_not_take_are_refused(backbone, x: Any, views, words, cache):
    with pytest.raises(ConfigError) as caught:
        Embedder(entry(**backbone))(x, views)
    assert words in str(caught.value)
    assert not cache.exists()


def test_texts_one_by_one_have_the_same_features_in_any_company():
    texts = Texts.of([f"sample {'long ' * (i % 5)}{i}" for i in range(40)])
    wordllama = Embedder(entry("wordllama"))
    whole = wordllama(texts)
    rows = torch.tensor([38, 3, 20, 3])
    some = wordllama(Texts.of(texts[rows]))
    assert torch.equal(some.values, whole.values[rows])


@pytest.mark.parametrize("kind", ["flat", "few", "nan", "large"])
def test_features_that_cannot_be_used_are_refused_and_not_kept(kind, cache):
    with pytest.raises(DataError, match=r"Expected .* backbone"):
        Embedder(entry("tiny_backbone:bad", kind=kind))(images(4))
    assert not cache.exists()


def test_what_is_no_backbone_is_refused():
    with pytest.raises(ConfigError, match="takes, side, fingerprint, load"):
        Embedder(entry("tiny_backbone:no_backbone"))(images(4))


def test_progress_is_told_in_words(caplog, monkeypatch):
    monkeypatch.setattr(embedding, "_SPEAK", 0.0)
    with caplog.at_level(logging.INFO, "flr"):
        Embedder(entry())(images(300), what="photographs")
    assert [r.getMessage().split(",")[0] for r in caplog.records] == [
        "features of photographs: 256 of 300",
        "features of photographs: 300 of 300",
    ]


def test_a_data_set_becomes_features_and_keeps_its_identity():
    raw = flr.data.build.from_arrays(images(50), torch.arange(50) % 2)
    found = Embedder(entry()).dataset(raw, views=2)
    assert isinstance(found.train.x, Features)
    assert isinstance(found.test.x, Features)
    assert found.train.x.values.shape[1] == 2
    assert found.test.x.values.shape[1] == 1
    assert found.fingerprint == raw.fingerprint
    normal: Tensor = found.normalize(found.train.x)[:]
    torch.testing.assert_close(normal.mean(0), torch.zeros(8), atol=1e-5, rtol=0)
