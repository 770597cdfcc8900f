"""Robust rules against their equations; what becomes of buffers, counters, second networks."""

from __future__ import annotations

import inspect
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

from flr.aggregate import knowing
from flr.aggregate.common import inner_products, squared_distances
from flr.aggregate.coordinates import median, trimmed_mean
from flr.aggregate.distances import (
    centre_if_far,
    far_weiszfeld,
    geometric_median,
    krum,
    krum_scores,
    weiszfeld,
)
from flr.aggregate.means import mean, norm_clip, unweighted
from flr.core import registry
from flr.core.contract import Reply
from flr.core.errors import RunError

RULES = {
    name: entry.factory
    for name, entry in registry.entries("aggregator").items()
    if entry.factory.__module__.startswith("flr.aggregate")
}
BUFFERS = frozenset({"model.0.mean", "model.0.count"})

counts = st.integers(3, 9)
seeds = st.integers(0, 999)


def generator(seed):
    return torch.Generator().manual_seed(seed)


def reply(client, examples, w, buffer=0.0, count=0):
    arrays = {"model.0.w": torch.as_tensor(w), "model.0.mean": torch.tensor([float(buffer)])}
    return Reply(client, examples, {**arrays, "model.0.count": torch.tensor(count)})


def cloud(n, seed, size=4):
    rng = generator(seed)
    examples = torch.randint(1, 50, (n,), generator=rng).tolist()
    return [
        reply(k, examples[k], torch.randn(size, generator=rng), buffer=k, count=10 * k)
        for k in range(n)
    ]


def previous_of(replies):
    return {name: torch.zeros_like(value) for name, value in replies[0].arrays.items()}


def apply(rule, replies, **options):
    return rule(replies, "model.", previous_of(replies), BUFFERS, **options)


def test_all_of_them_are_there():
    assert sorted(RULES) == [
        "geometric-median", "krum", "mean", "median", "norm-clip", "trimmed-mean", "unweighted",
    ]  # fmt: skip


@pytest.mark.parametrize("name", RULES)
@settings(deadline=None, max_examples=30)
@given(n=counts, seed=seeds)
def test_equal_replies_give_that_reply(name, n, seed):
    one = cloud(1, seed)[0]
    replies = [Reply(k, k + 1, one.arrays) for k in range(n)]
    result = RULES[name](replies, "model.", dict(one.arrays), BUFFERS)
    assert sorted(result) == sorted(one.arrays)
    for key, value in result.items():
        assert value.dtype == one.arrays[key].dtype
        torch.testing.assert_close(value, one.arrays[key])


@pytest.mark.parametrize("name", RULES)
def test_only_the_prefix_and_no_change_in_place(name):
    replies = [
        Reply(r.client, r.examples, {**r.arrays, "other": torch.ones(1)}) for r in cloud(5, 0)
    ]
    before = [{k: v.clone() for k, v in r.arrays.items()} for r in replies]
    result = RULES[name](replies, "model.", previous_of(replies), BUFFERS)
    assert "other" not in result
    for r, copies in zip(replies, before, strict=True):
        assert all(torch.equal(r.arrays[k], v) for k, v in copies.items())


@pytest.mark.parametrize("name", RULES)
@settings(deadline=None, max_examples=30)
@given(n=counts, seed=seeds)
def test_replies_bound_the_result(name, n, seed):
    """No rule leaves the box of what was sent and what was there before."""
    replies = cloud(n, seed)
    result = apply(RULES[name], replies)["model.0.w"]
    values = torch.stack([torch.zeros(4), *(r.arrays["model.0.w"] for r in replies)])
    assert (result >= values.min(0).values - 1e-6).all()
    assert (result <= values.max(0).values + 1e-6).all()


@pytest.mark.parametrize("name", ["median", "trimmed-mean", "krum", "geometric-median"])
@pytest.mark.parametrize("lie", [1e6, -1e6])
def test_a_far_reply_has_no_say(name, lie):
    replies = [*cloud(9, 3), reply(9, 10, torch.full((4,), lie), buffer=lie)]
    result = apply(RULES[name], replies)["model.0.w"]
    assert result.abs().max() < 5
    assert apply(mean, replies)["model.0.w"].abs().max() > 1000


@pytest.mark.parametrize("lie", [1e8, 1e14, 1e20, -1e30, 3e38])
@pytest.mark.parametrize("liars", [1, 3])
def test_a_reply_of_any_size_moves_the_geometric_median_as_little(lie, liars):
    """Far replies pull by their direction alone: the next thousand miles make no difference."""

    def with_lie(size):
        lies = [reply(9 + k, 10, torch.full((4,), size)) for k in range(liars)]
        return apply(geometric_median, [*cloud(9, 3), *lies])["model.0.w"]

    assert with_lie(lie).abs().max() < 5
    torch.testing.assert_close(with_lie(lie), with_lie(math.copysign(1e6, lie)), atol=1e-4, rtol=0)


@pytest.mark.parametrize("lie", [1e8, 1e14, 1e20, -1e30, 3e38])
def test_a_reply_of_any_size_is_clipped_to_the_same_length(lie):
    def with_lie(size):
        return apply(norm_clip, [*cloud(9, 3), reply(9, 10, torch.full((4,), size))])["model.0.w"]

    torch.testing.assert_close(with_lie(lie), with_lie(math.copysign(1e4, lie)))


def test_replies_that_are_near_take_the_old_way_to_the_geometric_median():
    """Ordinary runs keep their bits; both ways lead to the same weights."""
    replies = [*cloud(9, 3), reply(9, 10, torch.full((4,), 1e4))]
    squared = squared_distances(replies, ["model.0.w"])
    assert centre_if_far(squared) is None
    alpha = torch.tensor([float(r.examples) for r in replies], dtype=torch.float64)
    products = inner_products(replies, ["model.0.w"], 0)
    old = weiszfeld(squared, alpha, 1e-6, 1000)
    new = far_weiszfeld(products, alpha, squared[0] < 1e6, 1e-6, 1000)
    torch.testing.assert_close(old, new, atol=1e-9, rtol=0)


def test_unweighted_counts_every_reply_alike():
    replies = [reply(0, 1, [1.0]), reply(1, 99, [3.0])]
    assert apply(unweighted, replies)["model.0.w"].item() == 2.0
    assert apply(mean, replies)["model.0.w"].item() == pytest.approx(2.98)


@given(counts, seeds)
def test_median_is_numpys(n, seed):
    replies = cloud(n, seed)
    stacked = np.stack([r.arrays["model.0.w"].numpy() for r in replies])
    result = apply(median, replies)["model.0.w"].numpy()
    np.testing.assert_allclose(result, np.median(stacked, axis=0), rtol=1e-6)


@given(counts, seeds, st.floats(0, 0.49))
def test_trimmed_mean_cuts_both_ends(n, seed, share):
    replies = cloud(n, seed)
    cut = int(share * n)
    stacked = np.sort(np.stack([r.arrays["model.0.w"].numpy() for r in replies]), axis=0)
    expected = stacked[cut : n - cut].mean(0, dtype=np.float64)
    result = apply(trimmed_mean, replies, share=share)["model.0.w"].numpy()
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("rule", [median, trimmed_mean])
def test_coordinates_take_float_buffers_along_and_counters_from_the_largest(rule):
    replies = [reply(k, n, [0.0], k, 7 * k) for k, n in enumerate([3, 9, 5, 9, 1])]
    result = apply(rule, replies)
    assert result["model.0.mean"].item() == 2.0
    assert result["model.0.count"].item() == 7  # client 1: the first with 9 samples


def test_krum_scores_by_hand():
    points = torch.tensor([0.0, 1.0, 3.0, 10.0, 11.0], dtype=torch.float64)
    squared = (points[:, None] - points).square()
    assert krum_scores(squared, 1).tolist() == [1 + 9, 1 + 4, 4 + 9, 1 + 49, 1 + 64]
    assert krum_scores(squared, 2).tolist() == [1, 1, 4, 1, 1]


def test_krum_gives_all_of_the_chosen_reply():
    """Distances look at parameters only: a wild buffer does not keep a reply from being chosen."""
    ws = [[0.0], [1.0], [3.0], [10.0], [11.0]]
    replies = [reply(k, k + 1, w, buffer=1e6 * k, count=k) for k, w in enumerate(ws)]
    result = apply(krum, replies, byzantine=1)
    assert [v.item() for v in result.values()] == [1, 1e6, 1.0]
    several = apply(krum, replies, byzantine=1, select=3)
    assert several["model.0.w"].item() == pytest.approx((0 * 1 + 1 * 2 + 3 * 3) / 6)
    assert several["model.0.mean"].item() == pytest.approx(1e6 * (1 * 2 + 2 * 3) / 6)


def test_without_the_names_of_buffers_they_would_decide():
    replies = [reply(k, 1, [float(k)], buffer=b) for k, b in enumerate([0, 900, 0, 0, 0])]
    previous = previous_of(replies)
    chosen = [
        rule(replies, "model.", previous)["model.0.mean"].item()
        for rule in (knowing(krum, BUFFERS), knowing(krum, frozenset()))
    ]
    assert chosen == [900.0, 0.0]


def test_each_network_is_decided_on_alone():
    near, far = torch.zeros(2), torch.full((2,), 50.0)
    replies = [
        Reply(k, 1, {"model.0.w": (far if k == 0 else near) + k, "model.1.w": near + (4 - k) ** 2})
        for k in range(5)
    ]
    result = krum(replies, "model.", dict(replies[0].arrays), byzantine=1)
    assert result["model.0.w"].tolist() == [2.0, 2.0]
    assert result["model.1.w"].tolist() == [1.0, 1.0]


@settings(deadline=None, max_examples=30)
@given(counts, seeds)
def test_geometric_median_is_the_least_sum_of_distances(n, seed):
    replies = cloud(n, seed, size=2)
    points = np.stack([r.arrays["model.0.w"].double().numpy() for r in replies])
    sizes = np.array([r.examples for r in replies])

    def total(v):
        return float((sizes * np.linalg.norm(points - v, axis=1)).sum())

    found = apply(geometric_median, replies, iterations=2000)["model.0.w"].double().numpy()
    best = min([optimize.minimize(total, found, method="Nelder-Mead").fun, *map(total, points)])
    assert total(found) <= best * (1 + 1e-4)


def test_one_step_of_weiszfeld_by_hand():
    points = torch.tensor([0.0, 2.0, 10.0], dtype=torch.float64)
    alpha = torch.tensor([1.0, 1.0, 2.0], dtype=torch.float64)
    squared = (points[:, None] - points).square()
    raw = alpha / (points - 5.5).abs()
    torch.testing.assert_close(weiszfeld(squared, alpha, 1e-6, 1), raw / raw.sum())


def test_norm_clip_by_hand():
    replies = [reply(0, 1, [3.0, 4.0], buffer=10, count=10), reply(1, 3, [0.3, 0.4], buffer=2)]
    result = apply(norm_clip, replies, bound=1.0)
    torch.testing.assert_close(result["model.0.w"], torch.tensor([0.375, 0.5]))
    assert result["model.0.mean"].item() == pytest.approx(0.25 * 0.2 * 10 + 0.75 * 2)
    assert result["model.0.count"].dtype == torch.int64


@given(counts, seeds)
def test_a_wide_bound_is_the_mean(n, seed):
    replies = cloud(n, seed)
    clipped, plain = apply(norm_clip, replies, bound=1e6), apply(mean, replies)
    for name in plain:
        torch.testing.assert_close(clipped[name], plain[name])


def test_the_median_of_the_norms_is_the_bound():
    replies = [reply(k, 1, [w]) for k, w in enumerate([1.0, 2.0, 900.0])]
    result = apply(norm_clip, replies)["model.0.w"]
    assert result.item() == pytest.approx((1 + 2 + 2) / 3)


@pytest.mark.parametrize(
    ("options", "n", "message"),
    [
        ({"byzantine": 1}, 3, r'"krum" needs at least 4 replies .*; 3 came\. Ask more'),
        ({"byzantine": 0.4}, 2, "needs at least 3 replies"),
        ({"byzantine": 1, "select": 5}, 5, "needs at least 6 replies"),
    ],
)
def test_too_few_replies_stop_the_run(options, n, message):
    with pytest.raises(RunError, match=message):
        apply(krum, cloud(n, 0), **options)


@pytest.mark.parametrize("name", RULES)
def test_rules_have_the_same_four_arguments_and_named_options(name):
    kinds = [p.kind for p in inspect.signature(RULES[name]).parameters.values()]
    assert kinds[:4] == [inspect.Parameter.POSITIONAL_ONLY] * 4
    assert set(kinds[4:]) <= {inspect.Parameter.KEYWORD_ONLY}
