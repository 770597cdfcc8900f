"""Features of several views: which of them training sees, and where only the first one counts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tiny_backbone
import torch
from PIL import Image
from tiny_backbone import NAME, image_folder, images
from toys import bits, factory, in_brief

import flr
from flr import config as configs
from flr.core import registry
from flr.core.errors import DataError
from flr.data.batches import Batches
from flr.data.dataset import Normalization, make_site
from flr.data.features import Features
from flr.data.readers.images import one_by_one, read_classes
from flr.simulation.build import load_data, load_scenario, make_sites

VIEWS = 4
METHODS = [entry.name for entry in registry.entries("method").values()]


def features(n: int = 30, views: int = VIEWS, width: int = 5) -> Features:
    rng = torch.Generator().manual_seed(n)
    return Features(torch.randn(n, views, width, generator=rng).half())


def epoch(held: Features, seed: int = 0, batch: int = 7) -> tuple[list[Any], torch.Generator]:
    """The batches of one epoch, and the generator that views are drawn from."""
    site = make_site("s", held, slice(None), torch.arange(len(held)) % 3, 3)
    order, drawn = (torch.Generator().manual_seed(seed + k) for k in range(2))
    train = SimpleNamespace(batch=batch)
    client: Any = SimpleNamespace(data=site, train=train, order=order, augmentation=drawn)
    return list(Batches("none", ())(client)), drawn


def test_indexing_gives_the_first_view_as_float32():
    held = features()
    assert held.shape == (30, 5)
    for rows in (slice(3, 9), torch.tensor([4, 1]), torch.arange(30) % 2 == 0):
        assert torch.equal(held[rows], held.values[rows][:, 0].float())
        assert torch.equal(held.take(rows)[:], held[rows])
    assert torch.equal(torch.cat(list(held.split(8))), held[:])
    assert held.identity() != features(31).identity()


def test_normalization_is_for_all_views():
    normal = Normalization((1.0,) * 5, (2.0,) * 5)
    held = normal(features())
    rows = torch.tensor([3, 7])
    shown = held.views(rows)
    assert shown is not None
    assert torch.equal(shown, (held.values[rows].float() - 1) / 2)
    assert torch.equal(shown[:, 0], held[rows])


def test_each_visit_draws_a_view_of_its_sample():
    held = features()
    parts, _ = epoch(held)
    assert sorted(i for part in parts for i in part.index.tolist()) == list(range(30))
    seen = set()
    for part in parts:
        for x, i in zip(part.x, part.index.tolist(), strict=True):
            found = (held.values[i].float() == x).all(1).nonzero().flatten().tolist()
            assert len(found) == 1
            seen.add(found[0])
    assert seen == set(range(VIEWS))


def test_the_same_seed_draws_the_same_views():
    first, again, other = (torch.cat([b.x for b in epoch(features(), s)[0]]) for s in (0, 0, 5))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_one_view_draws_nothing():
    parts, drawn = epoch(features(views=1))
    assert torch.equal(drawn.get_state(), torch.Generator().manual_seed(1).get_state())
    for part in parts:
        assert torch.equal(part.x, features(views=1)[part.index])
    assert epoch(features())[1].get_state().ne(drawn.get_state()).any(), "several views draw"


def settings(method: Any, **changes: Any) -> dict[str, Any]:
    return {
        "seed": 2,
        "rounds": 3,
        "workers": 1,
        "method": in_brief(method),
        "data": {"backbone": NAME, "views": 2},
        "partition": {"kind": "iid", "clients": 3},
        "noise": {"kind": "symmetric", "clients": 1.0, "floor": 0.3},
        "scenario": {"benchmark": 12 if factory(method)().traits.supervised else 0},
        "train": {"model": "mlp", "participation": 1.0, "epochs": 1, "batch": 10},
        **changes,
    }


def samples(n: int = 90) -> tuple[torch.Tensor, torch.Tensor]:
    return images(n), torch.arange(n) % 3


@pytest.mark.parametrize("method", METHODS)
def test_every_method_trains_on_views(method, tmp_path):
    run = flr.run(settings(method), data=samples(), out=tmp_path / "run")
    assert len(run.metrics) == len({m["round"] for m in run.metrics}) >= 3
    assert {line["status"] for line in run.clients} <= {"ok"}


def test_views_change_what_is_learned_but_not_the_test(tmp_path):
    runs = [
        flr.run(
            settings("fedavg", data={"backbone": NAME, "views": views}),
            data=samples(),
            out=tmp_path / str(views),
        )
        for views in (1, 2)
    ]
    assert bits(runs[0]) != bits(runs[1])
    models = [run.model() for run in runs]
    assert models[0].normalize == models[1].normalize


def test_what_is_measured_at_a_site_is_the_first_view():
    config = configs.parse(settings("flr", data={"backbone": NAME, "views": VIEWS}))
    plain = configs.parse(settings("flr", data={"backbone": NAME}))
    many, one = (load_data(c, samples()) for c in (config, plain))
    assert torch.equal(many.test.x[:], one.test.x[:])
    tables = [make_sites(data, load_scenario(config, data)) for data in (many, one)]
    for site in range(3):
        several, single = (table[site] for table in tables)
        assert torch.equal(several.x, single.x)
        assert single.views is None
        assert several.views is not None
        assert several.views.shape[1] == VIEWS
        assert torch.equal(several.views[:, 0], several.x)


def test_global_and_local_predictions_of_flr_see_the_same_view(tmp_path, monkeypatch):
    watched: list[tuple[bool, torch.Tensor]] = []
    monkeypatch.setattr(tiny_backbone, "watched", watched)
    config = settings(
        {"name": "flr", "warmup_rounds": 0},
        data={"backbone": NAME, "views": VIEWS},
        train={"model": "tiny_backbone:watching_net", "participation": 1.0, "epochs": 2,
               "batch": 7},
    )  # fmt: skip
    flr.run(config, data=samples(), out=tmp_path / "run")
    trained = [k for k, (training, _) in enumerate(watched) if training]
    assert len(trained) > 10
    for k in trained:
        near = [watched[j] for j in (k - 1, k + 1) if 0 <= j < len(watched)]
        assert any(not training and torch.equal(x, watched[k][1]) for training, x in near)


def folder_config(path: Any, **data: Any) -> dict[str, Any]:
    source = {"name": "folder", "path": str(path)}
    return settings("fedavg", data={**source, "backbone": NAME, **data})


def test_a_corrupt_image_is_named_and_the_rest_is_not_computed_again(tmp_path, monkeypatch):
    monkeypatch.setattr(tiny_backbone, "calls", [])
    image_folder(tmp_path / "in" / "train", 600, ("a", "b"))
    image_folder(tmp_path / "in" / "test", 20, ("a", "b"), seed=1)
    bad = tmp_path / "in" / "train" / "b" / "599.png"  # the last one
    bad.write_bytes(bad.read_bytes()[:60])
    with pytest.raises(DataError, match=str(bad)):
        flr.run(folder_config(tmp_path / "in"), out=tmp_path / "run")
    assert len(tiny_backbone.calls) == 16
    assert not (tmp_path / "run" / "config.toml").exists()
    bad.unlink()
    flr.run(folder_config(tmp_path / "in"), out=tmp_path / "run")
    assert len(tiny_backbone.calls) == 16 + 3 + 1, "87 training images and 20 test images"


def test_a_picture_that_cannot_be_read_is_named(tmp_path):
    image_folder(tmp_path / "in", 8, ("a", "b"))
    (tmp_path / "in" / "a" / "000.png").unlink()
    (tmp_path / "in" / "a" / "000.png").symlink_to("/proc/self/mem")  # nobody can read its start
    with pytest.raises(DataError, match=r"000.png: expected an image; it cannot be read"):
        read_classes(tmp_path / "in", one_by_one(6)).x.digests(slice(None))  # type: ignore[union-attr]


def test_a_digest_is_of_content_and_size(tmp_path):
    image_folder(tmp_path / "in", 4, ("a", "b"))
    large, small = (read_classes(tmp_path / "in", one_by_one(s)).x for s in (9, 6))
    before = large.digests(slice(None))  # type: ignore[union-attr]
    assert len({*before, *small.digests(slice(None))}) == 8  # type: ignore[union-attr]
    one = tmp_path / "in" / "a" / "000.png"
    Image.fromarray(np.zeros((9, 9, 3), dtype=np.uint8)).save(one)
    after = large.digests(slice(None))  # type: ignore[union-attr]
    assert [a == b for a, b in zip(before, after, strict=True)] == [False, True, True, True]
