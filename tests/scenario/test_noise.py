"""Noise: exactly the promised sites and samples, and labels that follow the transition matrix."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flr.core.errors import ConfigError
from flr.scenario.noises.asymmetric import NAMED, Asymmetric, resolve
from flr.scenario.noises.common import NoiseContext, corrupt, flip
from flr.scenario.noises.none import NoNoise
from flr.scenario.noises.symmetric import Symmetric

TEN = tuple("0123456789")
HUNDRED = tuple(str(i) for i in range(100))

shares = st.floats(0.0, 1.0)


def federation(sites=20, per_site=30, classes=10):
    """Labels 0, 1, 2, ... in a circle, and sites of consecutive samples."""
    labels = np.arange(sites * per_site) % classes
    return np.split(np.arange(len(labels)), sites), labels


@given(shares, shares, st.integers(0, 999), st.integers(1, 12), st.integers(1, 40))
def test_exactly_the_promised_sites_and_samples(rho, tau, seed, n_sites, per_site):
    sites, labels = federation(n_sites, per_site)
    noise = Symmetric(rho, tau, include_true=False)  # every selected sample changes
    given_labels, nominal, _ = corrupt(noise, NoiseContext(sites, labels, TEN, seed))
    noisy = round(rho * n_sites)
    assert (nominal > 0).sum() <= noisy
    assert sorted(nominal)[: n_sites - noisy] == [0.0] * (n_sites - noisy)
    assert all(tau <= r <= 1 for r in sorted(nominal)[n_sites - noisy :])
    for site, new, rate in zip(sites, given_labels, nominal, strict=True):
        assert (new != labels[site]).sum() == int(rate * per_site)


def test_rates_are_uniform_above_the_floor():
    sites, labels = federation(sites=4000, per_site=2)
    _, nominal, _ = corrupt(Symmetric(1.0, 0.4), NoiseContext(sites, labels, TEN, 0))
    assert 0.4 <= nominal.min() < 0.405
    assert 0.995 < nominal.max() <= 1.0
    assert abs(nominal.mean() - 0.7) < 0.01
    assert abs(nominal.std() - 0.6 / 12**0.5) < 0.01


def test_the_noisy_sites_are_chosen_at_random():
    sites, labels = federation(sites=10)
    chosen = {
        tuple(np.flatnonzero(corrupt(Symmetric(0.3), NoiseContext(sites, labels, TEN, seed))[1]))
        for seed in range(60)
    }
    assert all(len(group) == 3 for group in chosen)
    assert len(chosen) > 30


def test_sites_differ_and_depend_on_no_other():
    sites, labels = federation(sites=6, per_site=40)
    full, rates, _ = corrupt(Symmetric(), NoiseContext(sites, labels, TEN, 3))
    changed = [tuple(np.flatnonzero(new != labels[s])) for s, new in zip(sites, full, strict=True)]
    assert len(set(changed)) == 6
    assert len(set(rates)) == 6
    moved = [*sites]
    moved[0] = sites[0][:11]
    again, _, _ = corrupt(Symmetric(), NoiseContext(moved, labels, TEN, 3))
    assert all(np.array_equal(a, b) for a, b in zip(full[1:], again[1:], strict=True))


def test_seeds_repeat_and_differ():
    sites, labels = federation()
    first, again, other = (
        np.concatenate(corrupt(Symmetric(), NoiseContext(sites, labels, TEN, seed))[0])
        for seed in (1, 1, 2)
    )
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_the_true_labels_are_left_alone():
    sites, labels = federation()
    before = labels.copy()
    corrupt(Symmetric(), NoiseContext(sites, labels, TEN, 0))
    corrupt(NoNoise(), NoiseContext(sites, labels, TEN, 0))[0][0][:] = -1
    assert np.array_equal(labels, before)


def test_no_noise_changes_nothing():
    sites, labels = federation()
    new, nominal, _ = corrupt(NoNoise(), NoiseContext(sites, labels, TEN, 0))
    assert np.array_equal(np.concatenate(new), labels)
    assert not nominal.any()


@pytest.mark.parametrize("include_true", [True, False])
def test_symmetric_labels_are_uniform(include_true):
    noise = Symmetric(1.0, 1.0, include_true)  # floor 1: every sample is selected
    sites, labels = federation(sites=1, per_site=100_000)
    new = corrupt(noise, NoiseContext(sites, labels, TEN, 0))[0][0]
    seen = np.zeros((10, 10))
    np.add.at(seen, (labels, new), 1)
    expected = noise.transition(TEN, None)
    assert np.allclose(expected.sum(axis=1), 1)
    assert np.allclose(seen / seen.sum(axis=1, keepdims=True), expected, atol=0.015)
    assert (np.diag(seen) > 0).all() == include_true


@given(st.integers(2, 120), st.integers(0, 99), st.booleans())
def test_flip_never_gives_a_label_of_probability_zero(classes, seed, include_true):
    rng = np.random.default_rng(seed)
    matrix = Symmetric(include_true=include_true).transition(("c",) * classes, None)
    labels = rng.integers(classes, size=200)
    edges = [0.0, np.nextafter(1.0, 0.0), 0.5, 1 / classes]
    draws = np.concatenate([rng.random(180), np.repeat(edges, 5)])
    new = flip(labels, matrix, draws)
    assert new.min() >= 0
    assert new.max() < classes
    assert (matrix[labels, new] > 0).all()


@given(st.permutations(range(10)), st.integers(0, 99))
def test_a_map_is_followed_by_the_true_label(table, seed):
    if table == sorted(table):
        return
    noise = Asymmetric(1.0, 1.0, list(table))
    sites, labels = federation()
    new, _, _ = corrupt(noise, NoiseContext(sites, labels, TEN, seed))
    assert np.array_equal(np.concatenate(new), np.array(table)[labels])


def test_swapped_classes_have_the_full_rate():
    """Cats that became dogs must not be turned back: the authors of ELR index by changed labels."""
    sites, labels = federation(sites=1, per_site=50_000)
    new, nominal, _ = corrupt(Asymmetric(1.0, 0.4), NoiseContext(sites, labels, TEN, 0, "cifar10"))
    for cat, dog in ((3, 5), (5, 3)):
        became = new[0][labels == cat]
        assert set(became) == {cat, dog}
        assert abs((became == dog).mean() - nominal[0]) < 0.02


def test_named_maps_are_the_recorded_ones(golden):
    recorded = golden("noise_maps")
    assert list(NAMED["cifar10"]) == recorded["cifar10_asymmetric"]
    assert list(NAMED["cifar100"]) == recorded["cifar100_superclass_shift"]
    block = recorded["cifar100_block_shift_as_in_ELR_and_FedNoisy"]
    assert list(NAMED["cifar100-block5"]) == block
    coarse = np.array(recorded["cifar100_fine_to_coarse"])
    assert (coarse[list(NAMED["cifar100"])] == coarse).all()


def test_superclass_map_is_one_circle_in_each_group_of_five():
    table = np.array(NAMED["cifar100"])
    there = np.arange(100)
    for step in range(1, 6):
        there = table[there]
        assert (there == np.arange(100)).all() == (step == 5)


def test_digits_map_is_the_agreed_one():
    assert NAMED["digits"] == (0, 1, 7, 8, 4, 6, 5, 1, 8, 9)


def test_maps_by_name_by_pairs_and_by_number():
    animals = ("cat", "dog", "owl")
    assert resolve({"cat": "dog", "dog": "cat"}, animals, None).tolist() == [1, 0, 2]
    assert resolve([0, 0, 1], animals, None).tolist() == [0, 0, 1]
    assert resolve("auto", TEN, "digits").tolist() == list(NAMED["digits"])
    assert Asymmetric(map={"cat": "owl"}).transition(animals, None)[0].tolist() == [0, 0, 1]


@pytest.mark.parametrize(
    ("spec", "classes", "message"),
    [
        ("auto", TEN, "has none. Set map"),
        ("cifar100", TEN, "expected 10 class numbers.* got 100"),
        ("cifar-10", TEN, 'Did you mean "cifar10"'),
        ({"cat": "dgo"}, ("cat", "dog"), 'Did you mean "dog"'),
        ([0, 2], ("cat", "dog"), "from 0 to 1; got 2"),
        ([-1, 0], ("cat", "dog"), "from 0 to 1; got -1"),
        ([0, 1], ("cat", "dog"), "changes none"),
        ({}, ("cat", "dog"), "changes none"),
        ([], ("cat", "dog"), "got 0"),
    ],
)
def test_maps_that_do_not_fit(spec, classes, message):
    with pytest.raises(ConfigError, match=message):
        corrupt(Asymmetric(0.0, 0.0, spec), NoiseContext(*federation(classes=2), classes, 0))
