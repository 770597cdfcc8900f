"""Dirichlet, shards and the long tail: nobody empty, nothing twice, the promised sizes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from flr.core.errors import ConfigError
from flr.data.sources.digits import Digits
from flr.scenario.noises.none import NoNoise
from flr.scenario.partitions.dirichlet import Dirichlet
from flr.scenario.partitions.long_tail import LongTail
from flr.scenario.partitions.shards import Shards
from flr.scenario.scenario import build

counts_lists = st.lists(st.integers(1, 30), min_size=2, max_size=6)
seeds = st.integers(0, 999)


def labels_of(counts, seed=0):
    return np.random.default_rng(seed).permutation(np.repeat(np.arange(len(counts)), counts))


def rng(seed=0):
    return np.random.default_rng(seed)


def assert_dealt(sites, kept):
    """Every kept sample once, sorted, and no site empty."""
    everything = np.concatenate(sites)
    assert len(everything) == len(set(everything.tolist())) == kept
    assert all((np.diff(site) > 0).all() and len(site) for site in sites)


@given(counts_lists, st.integers(1, 12), st.floats(0.01, 100), st.integers(1, 3), seeds)
def test_dirichlet_deals_all(counts, clients, alpha, least, seed):
    assume(clients * least <= sum(counts))
    labels = labels_of(counts)
    sites, notes = Dirichlet(clients, alpha, least).split(labels, len(counts), rng(seed))
    assert len(sites) == clients
    assert_dealt(sites, len(labels))
    assert min(len(site) for site in sites) >= least
    assert len(notes) <= 1


def test_a_small_alpha_is_more_unequal():
    labels = labels_of([500] * 10)
    spread = [
        np.std([np.bincount(labels[s], minlength=10) for s in part.split(labels, 10, rng())[0]])
        for part in (Dirichlet(10, 0.1), Dirichlet(10, 1.0), Dirichlet(10, 100.0))
    ]
    assert spread[0] > spread[1] > spread[2]


@given(counts_lists, st.integers(1, 12), st.integers(1, 4), seeds)
def test_shards_are_equal_and_few(counts, clients, shards, seed):
    assume(clients * shards <= sum(counts))
    labels = labels_of(counts)
    sites, notes = Shards(clients, shards).split(labels, len(counts), rng(seed))
    assert notes == []
    assert_dealt(sites, len(labels))
    assert np.ptp([len(site) for site in sites]) <= shards


def test_two_shards_are_about_two_classes():
    labels = labels_of([100] * 10)
    sites, _ = Shards(50, 2).split(labels, 10, rng())
    assert all(len(set(labels[site])) <= 2 for site in sites)
    assert all(len(site) == 20 for site in sites)


@given(counts_lists, st.integers(1, 6), st.floats(1, 200), st.booleans(), seeds)
def test_the_long_tail_has_exactly_its_sizes(counts, clients, imbalance, iid, seed):
    labels, top = labels_of(counts), max(counts)
    last = max(len(counts) - 1, 1)
    wanted = [
        min(max(int(top * imbalance ** -(c / last) + 1e-9), 1), n) for c, n in enumerate(counts)
    ]
    assume(clients <= sum(wanted))
    part = LongTail(clients, imbalance, None if iid else 0.5)
    sites, notes = part.split(labels, len(counts), rng(seed))
    assert_dealt(sites, sum(wanted))
    assert np.bincount(labels[np.concatenate(sites)]).tolist() == wanted
    assert notes[0].startswith("The long tail leaves out")
    if iid:
        assert np.ptp([len(site) for site in sites]) <= 1


def test_the_first_class_is_so_many_times_the_last():
    labels = labels_of([500] * 10)
    sites, _ = LongTail(10, 100.0).split(labels, 10, rng())
    sizes = np.bincount(labels[np.concatenate(sites)])
    assert sizes[0] == 500
    assert sizes[-1] == 5
    assert (np.diff(sizes) < 0).all()
    ratios = sizes[:5] / sizes[1:6]
    assert np.allclose(ratios, 100 ** (1 / 9), rtol=0.03)


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (Dirichlet(30, least=4), "at least 4 samples each needs 120 samples; the data set has 100"),
        (Shards(30, 4), "120 shards with at least one sample each needs 120"),
        (LongTail(40, 100.0), "40 sites with at least one sample each needs 40"),
    ],
)
def test_infeasible_ones_say_why(part, message):
    labels = labels_of([10] * 10)
    with pytest.raises(ConfigError, match=message):
        part.feasible(np.bincount(labels))
    with pytest.raises(ConfigError, match=message):
        part.split(labels, 10, rng())


def test_a_long_tail_scenario_holds_fewer_samples():
    digits = Digits().load()
    made = build(digits, LongTail(10, 20.0), NoNoise(), seed=1)
    assert len(made.index) < len(digits.train)
    assert made.hash == build(digits, LongTail(10, 20.0), NoNoise(), seed=1).hash
    assert made.hash != build(digits, LongTail(10, 20.0, 0.5), NoNoise(), seed=1).hash
    assert "leaves out" in made.spec["notes"][0]
