"""Pair, confusion, ramp, instance and input noise, Bernoulli ratios: exact where they say so."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from flr.core.errors import ConfigError
from flr.data.sources.digits import Digits
from flr.scenario import scenario as scenarios
from flr.scenario.noises.asymmetric import Asymmetric
from flr.scenario.noises.common import NoiseContext, corrupt
from flr.scenario.noises.confusion import Confusion
from flr.scenario.noises.features import Features, blur
from flr.scenario.noises.instance import Instance, other_class, weighted_choice
from flr.scenario.noises.pair import PairFlip
from flr.scenario.noises.ramp import Ramp
from flr.scenario.noises.symmetric import Symmetric
from flr.scenario.partitions.iid import Iid

TEN = tuple("0123456789")
shares = st.floats(0.0, 1.0)
seeds = st.integers(0, 999)


def federation(sites=20, per_site=30, classes=10):
    labels = np.arange(sites * per_site) % classes
    return np.split(np.arange(len(labels)), sites), labels


def inputs_of(n, width=6, seed=0):
    x = np.random.default_rng(seed).standard_normal((n, width))
    return lambda samples: x[samples]


@pytest.fixture(scope="module")
def digits():
    return Digits().load()


@given(st.integers(2, 20), shares, seeds)
def test_pair_goes_to_the_next_class(classes, tau, seed):
    sites, labels = federation(classes=classes)
    new, nominal, _ = corrupt(
        PairFlip(1.0, tau), NoiseContext(sites, labels, ("c",) * classes, seed)
    )
    for site, given_labels, rate in zip(sites, new, nominal, strict=True):
        moved = given_labels != labels[site]
        assert moved.sum() == int(rate * len(site))
        assert (given_labels[moved] == (labels[site][moved] + 1) % classes).all()


@pytest.mark.parametrize("kind", [Symmetric, Asymmetric, PairFlip, Instance])
def test_bernoulli_ratios_are_coins(kind):
    sites, labels = federation(sites=400, per_site=50)
    options = {"map": [1, 2, 3, 4, 5, 6, 7, 8, 9, 0]} if kind is Asymmetric else {}
    options |= {"include_true": False} if kind is Symmetric else {}
    noise = kind(0.5, 0.2, ratio="bernoulli", **options)
    new, nominal, _ = corrupt(
        noise, NoiseContext(sites, labels, TEN, 1, inputs=inputs_of(len(labels)))
    )
    noisy = np.flatnonzero(nominal)
    assert len(noisy) != 200
    assert abs(len(noisy) - 200) < 60
    wrong = np.array([(new[k] != labels[sites[k]]).sum() for k in noisy])
    expected = nominal[noisy] * 50
    assert (wrong != expected.astype(int)).mean() > 0.5
    assert abs((wrong - expected).mean()) < 1


def test_exact_is_what_it_was():
    """An option that is left out changes no scenario that was drawn before it existed."""
    sites, labels = federation()
    one = corrupt(Symmetric(0.6, 0.5), NoiseContext(sites, labels, TEN, 3))[0]
    two = corrupt(Symmetric(0.6, 0.5, ratio="exact"), NoiseContext(sites, labels, TEN, 3))[0]
    assert all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))


@given(seeds, st.integers(2, 6))
def test_confusion_follows_its_rows(seed, classes):
    rng = np.random.default_rng(seed)
    matrix = rng.integers(0, 4, (classes, classes)) + np.eye(classes, dtype=np.int64)
    sites, labels = federation(sites=4, per_site=60, classes=classes)
    noise = Confusion(matrix=matrix.tolist())
    new, nominal, _ = corrupt(noise, NoiseContext(sites, labels, ("c",) * classes, seed))
    assert (nominal == 1).all()  # floor = 1: every sample goes through the matrix
    assert (matrix[labels, np.concatenate(new)] > 0).all()


def test_confusion_has_the_promised_shares(tmp_path):
    rows = [[0.7, 0.3, 0.0], [0.0, 0.9, 0.1], [0.5, 0.0, 0.5]]
    path = tmp_path / "matrix.csv"
    path.write_text("\n".join(",".join(map(str, row)) for row in rows) + "\n")
    sites, labels = federation(sites=3, per_site=20_000, classes=3)
    new, _, _ = corrupt(Confusion(matrix=path), NoiseContext(sites, labels, tuple("abc"), 0))
    table = np.zeros((3, 3))
    np.add.at(table, (labels, np.concatenate(new)), 1)
    assert np.allclose(table / table.sum(axis=1, keepdims=True), rows, atol=0.01)
    again, _, _ = corrupt(Confusion(matrix=rows), NoiseContext(sites, labels, tuple("abc"), 0))
    assert np.array_equal(np.concatenate(again), np.concatenate(new))


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[1.0, 0.0]], "expected 2 rows of 2 numbers.* got 1 rows of 2"),
        ([[1.0], [0.0, 1.0]], "got 2 rows of 1 or 2"),
        ([], "got 0 rows of 0"),
        ([[1.0, 0.0], [0.0, 0.0]], "some above it in every row"),
        ([[1.0, 0.0], [-1.0, 2.0]], "none below 0"),
        (Path("/no/such.csv"), "expected a CSV file of numbers at /no/such.csv"),
    ],
)
def test_matrices_that_do_not_fit(matrix, message):
    with pytest.raises(ConfigError, match=message):
        corrupt(Confusion(matrix=matrix), NoiseContext(*federation(classes=2), ("a", "b"), 0))


def test_a_heading_is_named(tmp_path):
    (tmp_path / "m.csv").write_text("a,b\n1,0\n0,1\n")
    with pytest.raises(ConfigError, match="no heading"):
        Confusion(matrix=tmp_path / "m.csv").transition(("a", "b"), None)


@given(shares, shares, st.integers(1, 30), st.integers(1, 3), seeds)
def test_ramps_grow_linearly_in_each_group(one, two, n_sites, groups, seed):
    low, high = sorted((one, two))
    noise = Ramp(low, high, ("symmetric", "pair", "symmetric")[:groups])
    sites, labels = federation(sites=n_sites)
    new, nominal, _ = corrupt(noise, NoiseContext(sites, labels, TEN, seed))
    expected = [np.linspace(low, high, len(g)) for g in np.array_split(np.arange(n_sites), groups)]
    assert np.allclose(nominal, np.concatenate(expected))
    for site, given_labels, rate in zip(sites, new, nominal, strict=True):
        assert (given_labels != labels[site]).sum() == int(rate * len(site))


def test_ramp_groups_have_their_own_noise():
    sites, labels = federation(sites=10, per_site=200)
    new, _, _ = corrupt(Ramp(1.0, 1.0, ("symmetric", "pair")), NoiseContext(sites, labels, TEN, 0))
    shift = [(n - labels[s]) % 10 for s, n in zip(sites, new, strict=True)]
    assert set(np.concatenate(shift[:5])) == set(range(1, 10))
    assert set(np.concatenate(shift[5:])) == {1}


@pytest.mark.parametrize("options", [{"low": 0.5, "high": 0.1}, {"groups": ()}])
def test_ramps_that_cannot_be(options):
    with pytest.raises(ConfigError, match="expected low <= high and a group"):
        Ramp(**options)


@settings(deadline=None)
@given(shares, shares, seeds, st.integers(1, 40))
def test_instance_noise_selects_exactly_the_promised_samples(rho, tau, seed, per_site):
    sites, labels = federation(sites=8, per_site=per_site)
    noise = Instance(rho, tau)
    inputs = inputs_of(len(labels))
    new, nominal, _ = corrupt(noise, NoiseContext(sites, labels, TEN, seed, inputs=inputs))
    assert (nominal > 0).sum() <= round(rho * 8)
    for site, given_labels, rate in zip(sites, new, nominal, strict=True):
        assert (given_labels != labels[site]).sum() == int(rate * per_site)
        assert given_labels.min() >= 0
        assert given_labels.max() < 10


def test_instance_noise_depends_on_the_inputs():
    """Like inputs of a class go to like labels; symmetric noise would spread them evenly."""
    labels = np.zeros(4000, dtype=np.int64)
    x = np.repeat(np.random.default_rng(0).standard_normal((2, 8)) * 3, 2000, axis=0)
    sites = [np.arange(4000)]
    new, _, _ = corrupt(
        Instance(1.0, 1.0), NoiseContext(sites, labels, TEN, 0, inputs=lambda s: x[s])
    )
    tops = [np.bincount(half, minlength=10) for half in np.split(new[0], 2)]
    assert all(top.max() > 1000 for top in tops)
    assert tops[0].argmax() != tops[1].argmax()


def test_instance_noise_selects_some_inputs_more_often():
    x = np.linspace(-1, 1, 2000)[:, None]
    labels, sites = np.zeros(2000, dtype=np.int64), [np.arange(2000)]
    halves = np.zeros(2)
    for seed in range(30):
        new, nominal, _ = corrupt(
            Instance(), NoiseContext(sites, labels, TEN, seed, inputs=lambda s: x[s])
        )
        if nominal[0] < 0.5:
            halves += sorted(half.sum() for half in np.split(new[0] != 0, 2))
    assert halves[1] > 1.2 * halves[0]


def test_instance_noise_without_inputs_is_refused():
    with pytest.raises(ConfigError, match="labels only"):
        corrupt(Instance(), NoiseContext(*federation(), TEN, 0))


def test_like_inputs_give_equal_chances():
    sites, labels = federation()
    new, _, _ = corrupt(
        Instance(), NoiseContext(sites, labels, TEN, 0, inputs=lambda s: np.zeros((len(s), 3)))
    )
    assert np.concatenate(new).max() < 10


@given(seeds, st.integers(1, 30))
def test_weighted_choice_is_without_replacement(seed, n):
    rng = np.random.default_rng(seed)
    weights = rng.random(n) * (rng.random(n) < 0.7)
    for count in range(n + 1):
        chosen = weighted_choice(weights, count, rng)
        assert len(set(chosen.tolist())) == count
        if count <= (weights > 0).sum():
            assert (weights[chosen] > 0).all()


@given(seeds, st.integers(2, 8))
def test_other_class_is_never_the_own_one(seed, classes):
    rng = np.random.default_rng(seed)
    logits = rng.standard_normal((50, classes)) * 300
    own = int(rng.integers(classes))
    draws = np.concatenate([rng.random(46), [0.0, np.nextafter(1.0, 0.0), 0.5, 0.99]])
    new = other_class(logits, own, draws)
    assert (new != own).all()
    assert ((new >= 0) & (new < classes)).all()


@given(shares, shares, seeds)
def test_feature_noise_leaves_labels_and_marks_exactly_its_samples(rho, tau, seed):
    sites, labels = federation(sites=6)
    noise = Features(rho, tau, std=0.5)
    new, nominal, levels = corrupt(noise, NoiseContext(sites, labels, TEN, seed))
    assert np.array_equal(np.concatenate(new), labels)
    for level, rate in zip(np.split(levels, 6), nominal, strict=True):
        assert set(level) <= {0.0, 0.5}
        assert (level > 0).sum() == int(rate * 30)


def test_blur_adds_noise_of_that_size_to_those_samples_only():
    x = torch.zeros(4, 3, 20, 20)
    sites = [torch.tensor([0, 2]), torch.tensor([1, 3])]
    levels = [torch.tensor([0.0, 2.0]), torch.tensor([0.5, 0.0])]
    blurred = blur(x, sites, levels, seed=1)
    assert not x.any()
    assert not blurred[[0, 3]].any()
    assert abs(float(blurred[2].std()) - 2.0) < 0.1
    assert abs(float(blurred[1].std()) - 0.5) < 0.05
    assert torch.equal(blur(x, sites, levels, seed=1), blurred)
    assert not torch.equal(blur(x, sites, levels, seed=2), blurred)


def test_a_scenario_keeps_its_input_noise(digits, tmp_path):
    plain = scenarios.build(digits, Iid(10), Symmetric(0.0), seed=1)
    made = scenarios.build(digits, Iid(10), Features(0.5, 0.5), seed=1)
    other = scenarios.build(digits, Iid(10), Features(0.5, 0.5, std=2.0), seed=1)
    assert len({plain.hash, made.hash, other.hash}) == 3
    assert torch.equal(made.labels, plain.labels)
    made.save(tmp_path / "s")
    copy = scenarios.load(tmp_path / "s")
    assert copy.hash == made.hash
    assert torch.equal(copy.levels, made.levels)
    assert copy.blur_seed == made.blur_seed == 1
    for site, level, rate in zip(
        made.sites, made.levels.split(made.sizes.tolist()), made.nominal, strict=True
    ):
        assert int((level > 0).sum()) == int(rate * len(site))


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("levels", lambda t: t[1:], "not as many as its samples"),
        ("levels", lambda t: t - 9, "not a number from 0"),
        ("levels", lambda t: t.double(), "wrong types"),
        ("blur_seed", lambda t: t.float(), "wrong types"),
        ("blur_seed", lambda t: t + 1, "was changed or damaged"),
        ("levels", lambda t: t * 2, "was changed or damaged"),
    ],
)
def test_damaged_input_noise_is_refused(digits, tmp_path, name, change, message):
    from flr.core import arrays
    from flr.core.errors import DataError

    scenarios.build(digits, Iid(10), Features(), seed=1).save(tmp_path / "s")
    tensors, meta = arrays.load(tmp_path / "s")
    tensors[name] = change(tensors[name])
    arrays.save(tmp_path / "s", tensors, meta)
    with pytest.raises(DataError, match=message):
        scenarios.load(tmp_path / "s")


def test_every_kind_builds_and_says_how(digits, tmp_path):
    (tmp_path / "m.csv").write_text("\n".join(",".join("1" * 10) for _ in range(10)))
    kinds = [PairFlip(), Ramp(groups=("symmetric", "pair")), Instance(), Features()]
    for noise in (*kinds, Confusion(matrix=tmp_path / "m.csv")):
        made = scenarios.build(digits, Iid(10), noise, seed=1)
        made.save(tmp_path / "s")
        assert scenarios.load(tmp_path / "s").spec == made.spec
        again = scenarios.build(digits, Iid(10), noise, seed=1)
        other = scenarios.build(digits, Iid(10), noise, seed=2)
        assert again.hash == made.hash != other.hash
