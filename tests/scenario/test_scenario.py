"""Scenario files and the truth: content hash, round trip, refusal of whatever does not belong."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from flr.core import arrays
from flr.core.errors import ConfigError, DataError
from flr.data.build import from_arrays, subset
from flr.data.dataset import Ragged
from flr.data.sources.digits import Digits
from flr.scenario.noises.asymmetric import Asymmetric
from flr.scenario.noises.none import NoNoise
from flr.scenario.noises.symmetric import Symmetric
from flr.scenario.partitions.bernoulli_dirichlet import BernoulliDirichlet
from flr.scenario.partitions.central import Central
from flr.scenario.partitions.iid import Iid
from flr.scenario.scenario import build, check_fits, load
from flr.scenario.truth import Truth


@pytest.fixture(scope="module")
def digits():
    return Digits().load()


@pytest.fixture(scope="module")
def scenario(digits):
    return build(digits, Iid(10), Symmetric(0.6, 0.5), seed=1)


def test_build_keeps_labels_beside_their_samples(digits):
    clean = build(digits, BernoulliDirichlet(10), NoNoise(), seed=1)
    for site, given in zip(clean.sites, clean.given, strict=True):
        assert torch.equal(digits.train.y[site], given)
        assert site.dtype == given.dtype == torch.int64


def test_partition_does_not_depend_on_the_noise(digits, scenario):
    other = build(digits, Iid(10), Asymmetric(), seed=1)
    assert all(torch.equal(a, b) for a, b in zip(scenario.sites, other.sites, strict=True))


def test_hash_is_of_the_content_only(digits, scenario):
    assert build(digits, Iid(10), Symmetric(0.6, 0.5), seed=1).hash == scenario.hash
    assert replace(scenario, spec={}, nominal=(0.0,) * 10).hash == scenario.hash
    flipped = list(scenario.given)
    flipped[4] = (flipped[4] + (torch.arange(len(flipped[4])) == 0)) % 10
    moved = (scenario.sites[1], scenario.sites[0], *scenario.sites[2:])
    others = [
        build(digits, Iid(10), Symmetric(0.6, 0.5), seed=2),
        replace(scenario, fingerprint="other"),
        replace(scenario, given=Ragged.of(flipped)),
        replace(scenario, sites=Ragged.of(moved)),
    ]
    assert len({scenario.hash, *(other.hash for other in others)}) == 5


def test_hash_sees_where_one_site_ends(scenario):
    joined = scenario.sites[:2].flat
    labels = scenario.given[:2].flat
    cut = replace(
        scenario,
        sites=Ragged.of([joined[:5], joined[5:], *scenario.sites[2:]]),
        given=Ragged.of([labels[:5], labels[5:], *scenario.given[2:]]),
    )
    assert torch.equal(cut.index, scenario.index)
    assert cut.hash != scenario.hash


def test_round_trip(tmp_path, scenario):
    path = tmp_path / "scenario.safetensors"
    scenario.save(path)
    copy = load(path)
    assert copy.hash == scenario.hash
    assert copy.nominal == scenario.nominal
    assert copy.spec == scenario.spec
    assert copy.given[3].dtype == torch.int64
    assert path.stat().st_size < 1437 * 5 + 2000


def test_equal_scenarios_are_equal_files(tmp_path, digits, scenario):
    scenario.save(tmp_path / "a")
    build(digits, Iid(10), Symmetric(0.6, 0.5), seed=1).save(tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize(("classes", "size"), [(256, 1), (257, 2)])
def test_labels_take_as_little_room_as_they_can(tmp_path, classes, size):
    y = np.repeat(np.arange(classes), 2)
    data = from_arrays(np.zeros((len(y), 1)), y, np.zeros((1, 1)), y[:1])
    made = build(data, Central(), Symmetric(), 0)
    made.save(tmp_path / "s")
    assert arrays.load(tmp_path / "s")[0]["given"].element_size() == size
    assert load(tmp_path / "s").hash == made.hash


def test_spec_names_its_parts_as_a_config_does(scenario):
    spec = json.loads(json.dumps(scenario.spec))
    assert spec["partition"] == {"kind": "iid", "clients": 10, "stratified": True}
    assert spec["noise"] == {
        "kind": "symmetric", "clients": 0.6, "floor": 0.5, "include_true": True, "ratio": "exact",
    }  # fmt: skip
    assert (spec["seed"], spec["notes"]) == (1, [])


def test_notes_of_the_partition_are_kept(digits):
    spec = build(digits, BernoulliDirichlet(2, p=0.05), NoNoise(), 0).spec
    assert any("No site drew class" in note for note in spec["notes"])


def changed(name, change):
    def apply(tensors, meta):
        tensors[name] = change(tensors[name])

    return apply


def without(name):
    return lambda tensors, _: tensors.pop(name)


def meta_with(**values):
    return lambda _, meta: meta.update(values)


def set_first(value):
    def change(tensor):
        tensor = tensor.clone()
        tensor[0] = value
        return tensor

    return change


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (without("given"), "holds the arrays"),
        (meta_with(kind="run"), "something else"),
        (meta_with(format=2), "format is 2"),
        (meta_with(fingerprint=None), '"fingerprint" is missing'),
        (meta_with(classes="10"), '"classes" is missing'),
        (meta_with(spec=[]), '"spec" is missing'),
        (meta_with(hash="0" * 64), "was changed or damaged"),
        (changed("index", lambda t: t.float()), "wrong types"),
        (changed("nominal", lambda t: t.float()), "wrong types"),
        (changed("index", lambda t: t[None]), "one-dimensional"),
        (changed("index", lambda t: t[1:]), "do not add up"),
        (changed("given", lambda t: t[1:]), "do not add up"),
        (changed("sizes", lambda t: t * 0), "empty"),
        (changed("nominal", lambda t: t[1:]), "not as many"),
        (changed("index", lambda t: t * 0), "in two places"),
        (changed("index", set_first(-1)), "negative"),
        (changed("given", set_first(200)), "not from 0 to 9"),
        (changed("nominal", set_first(float("nan"))), "rate is not"),
        (changed("given", lambda t: t.flip(0)), "was changed or damaged"),
    ],
)
def test_load_trusts_nothing(tmp_path, scenario, damage, message):
    path = tmp_path / "scenario.safetensors"
    scenario.save(path)
    tensors, meta = arrays.load(path)
    damage(tensors, meta)
    arrays.save(path, tensors, meta)
    with pytest.raises(DataError, match=message):
        load(path)


def test_load_of_other_files(tmp_path, scenario):
    with pytest.raises(DataError, match="there is none"):
        load(tmp_path / "no")
    scenario.save(tmp_path / "s")
    (tmp_path / "s").write_bytes((tmp_path / "s").read_bytes()[:-9])
    with pytest.raises(DataError, match="cannot be read"):
        load(tmp_path / "s")


def test_check_fits(digits, scenario):
    check_fits(scenario, digits)
    with pytest.raises(DataError, match="got one for digits"):
        check_fits(scenario, subset(digits, 1000, None))
    beyond = (scenario.sites[0] + 1437, *scenario.sites[1:])
    with pytest.raises(DataError, match="build it again"):
        check_fits(replace(scenario, sites=Ragged.of(beyond)), digits)


def test_truth_counts_wrong_labels_site_by_site(digits):
    scenario = build(digits, BernoulliDirichlet(10), Symmetric(0.6, 0.5), seed=1)
    truth = Truth.of(scenario, digits)
    wrong = [
        float((digits.train.y[site] != given).double().mean())
        for site, given in zip(scenario.sites, scenario.given, strict=True)
    ]
    assert truth.realised.tolist() == pytest.approx(wrong)
    assert [r > 0 for r in wrong] == [r > 0 for r in scenario.nominal]
    sizes = [len(site) for site in scenario.sites]
    assert truth.overall == pytest.approx(np.average(wrong, weights=sizes))
    assert torch.equal(truth.true[3], digits.train.y[scenario.sites[3]])


def test_realised_noise_is_the_theory(digits):
    scenario = build(digits, Central(), Symmetric(1.0, 1.0), seed=0)
    assert abs(Truth.of(scenario, digits).overall - 0.9) < 0.03
    scenario = build(digits, Central(), Asymmetric(1.0, 1.0), seed=0)
    moving = torch.isin(digits.train.y, torch.tensor([2, 3, 5, 6, 7])).double().mean()
    assert Truth.of(scenario, digits).overall == pytest.approx(float(moving))


def test_truth_refuses_another_data_set(digits, scenario):
    with pytest.raises(DataError, match="Use the data set"):
        Truth.of(scenario, subset(digits, 1000, None))


def test_many_sites_are_cheap():
    n = 20_000
    data = from_arrays(np.zeros((n, 1)), np.arange(n) % 2, np.zeros((1, 1)), [0])
    scenario = build(data, Iid(n), NoNoise(), 0)
    assert len(scenario.sites) == n
    assert Truth.of(scenario, data).overall == 0.0


def test_a_benchmark_is_held_out_of_every_site(digits, tmp_path):
    dataset = digits
    plain = build(dataset, Iid(clients=4), Symmetric(), seed=1)
    held = build(dataset, Iid(clients=4), Symmetric(), seed=1, benchmark=50)
    assert torch.bincount(dataset.train.y[held.benchmark]).tolist() == [5] * 10
    assert not set(held.benchmark.tolist()) & set(held.index.tolist())
    assert len(held.index) + 50 == len(dataset.train)
    assert held.hash != plain.hash
    held.save(tmp_path / "s.safetensors")
    assert load(tmp_path / "s.safetensors").benchmark.tolist() == held.benchmark.tolist()
    with pytest.raises(ConfigError, match="the sites need some"):
        build(dataset, Iid(clients=4), Symmetric(), seed=1, benchmark=len(dataset.train))
