"""Partitions: every sample once, the promised sizes, and errors only where dealing cannot work."""

from __future__ import annotations

from importlib.machinery import ModuleSpec

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from flr.config import parse
from flr.core.errors import ConfigError
from flr.scenario.partitions.bernoulli_dirichlet import BernoulliDirichlet, nonempty_rows
from flr.scenario.partitions.central import Central
from flr.scenario.partitions.iid import Iid

counts_lists = st.lists(st.integers(1, 30), min_size=2, max_size=6)


def labels_of(counts, seed=0):
    return np.random.default_rng(seed).permutation(np.repeat(np.arange(len(counts)), counts))


def rng(seed=0):
    return np.random.default_rng(seed)


def table(sites, labels, classes):
    """Samples of each class (columns) at each site (rows)."""
    return np.array([np.bincount(labels[site], minlength=classes) for site in sites])


def assert_deals_all(sites, n):
    assert np.array_equal(np.sort(np.concatenate(sites)), np.arange(n))
    assert all((np.diff(site) > 0).all() for site in sites)
    assert all(len(site) > 0 for site in sites)


@given(counts_lists, st.integers(1, 40), st.booleans(), st.integers(0, 99))
def test_iid_sizes_and_class_counts_differ_by_one_at_most(counts, clients, stratified, seed):
    assume(clients <= sum(counts))
    labels = labels_of(counts)
    part = Iid(clients, stratified)
    sites, notes = part.split(labels, len(counts), rng(seed))
    assert len(sites) == part.sites == clients
    assert notes == []
    assert_deals_all(sites, len(labels))
    sizes = np.array([len(site) for site in sites])
    assert sizes.max() - sizes.min() <= 1
    if stratified:
        assert np.ptp(table(sites, labels, len(counts)), axis=0).max() <= 1


def test_iid_of_the_paper_is_exactly_equal():
    labels = labels_of([500] * 10)
    sites, _ = Iid(100).split(labels, 10, rng())
    assert (table(sites, labels, 10) == 5).all()


def test_iid_without_strata_is_not_stratified():
    labels = labels_of([100] * 10)
    sites, _ = Iid(10, stratified=False).split(labels, 10, rng())
    assert np.ptp(table(sites, labels, 10)) > 3


def test_iid_extra_samples_fall_on_random_sites():
    labels = labels_of([7, 6])
    largest = {
        tuple(len(s) for s in Iid(4).split(labels, 2, rng(seed))[0]).index(4) for seed in range(40)
    }
    assert largest == {0, 1, 2, 3}


@given(
    counts_lists, st.integers(1, 12), st.floats(0.05, 1.0), st.floats(0.01, 100.0),
    st.integers(0, 999),
)  # fmt: skip
def test_bernoulli_dirichlet_deals_all_or_says_why(counts, clients, p, alpha, seed):
    labels, part = labels_of(counts), BernoulliDirichlet(clients, p, alpha)
    phi = nonempty_rows(clients, len(counts), p, rng(seed))
    if (phi.sum(axis=0) > np.array(counts)).any() or sum(counts) < clients:
        with pytest.raises(ConfigError, match="needs"):
            part.split(labels, len(counts), rng(seed))
        return
    sites, notes = part.split(labels, len(counts), rng(seed))
    assert_deals_all(sites, len(labels))
    held = table(sites, labels, len(counts)) > 0
    orphans = ~phi.any(axis=0)
    assert np.array_equal(held[:, ~orphans], phi[:, ~orphans])
    assert (held[:, orphans].sum(axis=0) == 1).all()
    assert len(notes) == orphans.sum()


def test_a_class_that_nobody_drew_is_reported_with_its_new_site():
    labels = labels_of([20] * 6)
    sites, notes = BernoulliDirichlet(2, p=0.05).split(labels, 6, rng(1))
    held = table(sites, labels, 6)
    assert notes
    for note in notes:
        words = note.replace(";", "").replace(".", "").split()
        assert held[int(words[-1]), int(words[4])] == 20


@given(counts_lists, st.integers(1, 40), st.booleans())
def test_feasible_agrees_with_split(counts, clients, iid):
    part = Iid(clients) if iid else BernoulliDirichlet(clients, p=1.0, alpha=1.0)

    def refused(call):
        try:
            call()
        except ConfigError:
            return True
        return False

    expected = clients > (sum(counts) if iid else min(counts))
    assert refused(lambda: part.feasible(np.array(counts))) == expected
    assert refused(lambda: part.split(labels_of(counts), len(counts), rng())) == expected


def test_infeasible_errors_have_the_numbers():
    with pytest.raises(ConfigError, match=r"500 sites x 14 classes .* 7,000 samples.* has 1,437"):
        BernoulliDirichlet(500, p=1.0).feasible(np.array([102] * 13 + [111]))
    with pytest.raises(ConfigError, match=r"2,000 sites .* needs 2,000 samples; .* has 1,437"):
        Iid(2000).feasible(np.array([1437]))
    with pytest.raises(ConfigError, match=r"\d+ of 90 sites drew class 1, .* has 5"):
        BernoulliDirichlet(90, p=0.7).split(labels_of([900, 5]), 2, rng())


def test_rows_have_the_conditional_distribution():
    p, columns, n = 0.3, 3, 200_000
    rows = nonempty_rows(n, columns, p, rng())
    seen = np.bincount(rows @ [1, 2, 4], minlength=8) / n
    ones = np.array([bin(pattern).count("1") for pattern in range(8)])
    expected = p**ones * (1 - p) ** (columns - ones)
    expected[0] = 0
    assert np.allclose(seen, expected / expected.sum(), atol=0.005)


@pytest.mark.parametrize("p", [1e-12, 1e-3, 0.999, 1.0])
def test_rows_at_the_edges_are_never_empty(p):
    rows = nonempty_rows(5000, 4, p, rng())
    assert rows.any(axis=1).all()
    if p < 0.01:
        assert np.ptp(rows.sum(axis=0)) < 400
    else:
        assert rows.mean() > 0.99


def test_small_alpha_is_more_unequal():
    labels = labels_of([3000] * 3)

    def spread(alpha):
        sites, _ = BernoulliDirichlet(20, 1.0, alpha).split(labels, 3, rng())
        return table(sites, labels, 3).std()

    assert spread(0.001) > spread(0.5) > spread(10.0) > spread(1000.0)
    # Dirichlet(10) over 20 sites: standard deviation of a share is sqrt(19 / 400 / 201) = 0.0154
    assert 0.75 < spread(10.0) / (2980 * 0.0154) < 1.45


def test_central_has_one_site_with_everything():
    labels = labels_of([3, 4])
    assert [site.tolist() for site in Central().split(labels, 2, rng())[0]] == [list(range(7))]
    assert Central().sites == 1


@pytest.mark.parametrize("part", [Iid(7), BernoulliDirichlet(7)])
def test_the_same_seed_gives_the_same_sites(part):
    labels = labels_of([60] * 4)
    first, again, other = (part.split(labels, 4, rng(seed))[0] for seed in (1, 1, 2))
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert any(not np.array_equal(a, b) for a, b in zip(first, other, strict=True))


@pytest.mark.parametrize("package", ["datasets", "flwr_datasets"])
def test_flower_datasets_is_named_where_it_is_missing(package, monkeypatch):
    """Whichever is installed here: one of them is not."""

    def found(name: str) -> ModuleSpec | None:
        return None if name == package else ModuleSpec(name, None)

    monkeypatch.setattr("importlib.util.find_spec", found)
    config = parse({"rounds": 1, "partition": "flwr_datasets.partitioner:IidPartitioner"})
    with pytest.raises(ConfigError, match=r'pip install "flr\[datasets\]"'):
        config.partition.build().split(labels_of([30, 30]), 2, rng())
