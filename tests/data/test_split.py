"""Fixed splits and subsets: proportions, balance, and independence of everything but the labels."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from flr.data.train_test_split import balanced, stratified

label_lists = st.lists(st.integers(1, 40), min_size=1, max_size=8).map(
    lambda counts: np.repeat(np.arange(len(counts)), counts)
)


@given(label_lists)
@example(np.array([0, 1, 2, 3, 4, 4, 4]))
def test_split_deals_every_sample_once_and_leaves_each_class_to_train(labels):
    train, test = stratified(labels)
    assert sorted([*train, *test]) == list(range(len(labels)))
    assert (np.bincount(labels[train], minlength=labels.max() + 1) >= 1).all()
    most = len(labels) - (labels.max() + 1)
    assert len(test) == min(-(-len(labels) // 5), most)


@given(st.lists(st.integers(1, 12), min_size=1, max_size=8))
def test_split_takes_a_fifth_of_each_class_where_that_is_possible(fifths):
    labels = np.repeat(np.arange(len(fifths)), [5 * n for n in fifths])
    _, test = stratified(labels)
    assert np.bincount(labels[test]).tolist() == fifths


@given(label_lists)
def test_split_tests_larger_classes_on_no_fewer_samples(labels):
    _, test = stratified(labels)
    counts = np.bincount(labels)
    held = np.bincount(labels[test], minlength=len(counts))
    by_size = np.lexsort((held, counts))
    assert (np.diff(held[by_size]) >= 0).all()


def test_split_is_not_the_first_or_last_fifth():
    train, test = stratified(np.repeat([0, 1], 50))
    assert list(test[:10]) != list(range(10))
    assert test.max() > 50 > test.min()
    assert (np.diff(train) > 0).all()
    assert (np.diff(test) > 0).all()


@given(label_lists, st.data())
def test_balanced_fills_the_smallest_classes_first(labels, data):
    size = data.draw(st.integers(1, len(labels)))
    chosen = balanced(labels, size)
    assert len(set(chosen.tolist())) == size
    counts = np.bincount(labels)
    taken = np.bincount(labels[chosen], minlength=len(counts))
    exhausted = taken == counts
    if not exhausted.all():
        assert taken[~exhausted].max() - taken[~exhausted].min() <= 1
        assert taken.max() <= taken[~exhausted].min() + 1


@given(label_lists, st.data())
def test_larger_subsets_only_add(labels, data):
    size = data.draw(st.integers(1, len(labels)))
    smaller = data.draw(st.integers(1, size))
    assert set(balanced(labels, smaller)) <= set(balanced(labels, size))
