"""Features: the same ones in every process, and the same bits as a plain loop's."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest
import torch

from benchmarks import embedding, flr_engine, numbered, protocol, reference, workloads
from benchmarks.compare import compare, distance
from benchmarks.prepare import prepare
from flr.models.embedding import BATCH
from flr.models.feature_cache import VARIABLE

SMALL = replace(workloads.get("features"), clients=4, per_round=2, samples=11, shape=(6,))


def test_all_views_of_a_sample_have_the_features_of_its_number():
    backbone = numbered.Numbered(5)
    shown = torch.from_numpy(numbered.images(70_000, 3))
    features = backbone(shown)
    assert torch.equal(features[1:2], backbone(torch.from_numpy(numbered.images(70_001, 1))))
    assert torch.equal(features, backbone(shown[:, :, :1, :1]))  # as a view is cut
    assert len(features.unique()) == features.numel()


def test_a_federation_on_features_has_the_bare_loops_bits(tmp_path, monkeypatch, one_thread):
    monkeypatch.setitem(workloads.WORKLOADS, SMALL.name, SMALL)
    prepared = prepare(SMALL, tmp_path, rounds=2, seed=3)
    work = reference.read(tmp_path)
    assert work.x.shape == (44, 6)
    steps, weights = reference.train(work, protocol.RoundEnds())
    assert steps == prepared.steps
    monkeypatch.setattr(numbered.Numbered, "load", lambda _: pytest.fail("not from the cache"))
    found = flr_engine.train(tmp_path, 1, "fedavg", protocol.RoundEnds())
    np.savez(tmp_path / "unit.npz", **{name: value.numpy() for name, value in weights.items()})
    np.savez(tmp_path / "other.npz", **found)
    files = (tmp_path / f"{name}.npz" for name in ("unit", "other", "initial"))
    assert distance(*files) == 0.0


def test_the_users_cache_is_left_alone(tmp_path, monkeypatch):
    for before in ("mine", None):
        monkeypatch.delenv(VARIABLE, raising=False)
        if before:
            monkeypatch.setenv(VARIABLE, before)
        with numbered.cache_in(tmp_path):
            assert os.environ[VARIABLE] == str(tmp_path)
        assert os.environ.get(VARIABLE) == before


def test_the_embedder_and_the_bare_loop_give_the_same_features(tmp_path):
    work = replace(workloads.get("embedding"), model={"name": "efficientnet-lite0", "size": 32})
    prepared = prepare(replace(work, samples=2 * BATCH), tmp_path, rounds=2, seed=1)
    found = compare(embedding.compared(prepared), 1, lambda _: None)
    assert [done.difference for done in found] == [0.0] * len(found)
    assert {done.steps for done in found} == {4, None}
    assert len({done.engine for done in found}) == 4


def test_every_round_begins_with_an_empty_cache(monkeypatch):
    seen = []
    monkeypatch.setattr(
        numbered.Numbered, "load", lambda self: seen.append(os.environ[VARIABLE]) or self
    )
    backbone = f"{numbered.__name__}:Numbered"
    entry = embedding.parse_entry("backbone", {"name": backbone, "width": 3}, default="")
    shown = torch.from_numpy(numbered.images(0, 5))
    features = embedding.embed(entry, shown, 3, 2, lambda: None)
    assert len(set(seen)) == 3
    assert not any(map(os.path.exists, seen))
    assert torch.equal(features, numbered.Numbered(3)(shown).half())
