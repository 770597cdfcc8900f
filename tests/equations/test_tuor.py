"""Tuor et al.'s threshold against a search over raw losses."""

from __future__ import annotations

import pytest
import torch
from scipy.stats import ks_2samp

from flr.methods.tuor import EDGES, choose_threshold, histogram, kept, ks_distances


def draws(seed: int, *sizes: tuple[int, float]) -> torch.Tensor:
    """Losses of several kinds of samples: (how many, their scale)."""
    generator = torch.Generator().manual_seed(seed)
    parts = [torch.rand(n, generator=generator, dtype=torch.float64) * scale for n, scale in sizes]
    return torch.cat(parts)


def test_every_loss_is_in_one_bin():
    losses = torch.tensor([0.0, 1e-9, 1e-6, 0.5, 99.0, 1e9])
    counts = histogram(losses)
    assert counts.sum() == 6
    assert counts[0] == 3
    assert counts[-1] == 1


def test_distances_are_scipys_on_the_restricted_losses():
    edges = torch.linspace(0.05, 4.0, 80, dtype=torch.float64)
    benchmark, clients = draws(1, (60, 1.0)), draws(2, (80, 1.0), (40, 4.0))
    benchmark, clients = (edges[torch.bucketize(v, edges)] for v in (benchmark, clients))
    found = ks_distances(histogram(benchmark, edges), histogram(clients, edges))
    for edge, distance in zip(edges, found, strict=False):
        left = clients[clients <= edge]
        expected = ks_2samp(benchmark, left).statistic if len(left) else 1.0
        assert float(distance) == pytest.approx(expected, abs=1e-12)


def test_the_threshold_parts_two_kinds_of_samples():
    clean, wrong = draws(3, (500, 0.1)), 3 + draws(4, (300, 2.0))
    threshold = choose_threshold(
        histogram(draws(5, (200, 0.1))), histogram(torch.cat([clean, wrong]))
    )
    assert (clean <= threshold).double().mean() > 0.9
    assert (wrong > threshold).all()


def test_with_nothing_to_part_nothing_is_lost():
    losses = draws(6, (500, 1.0))
    assert choose_threshold(histogram(losses), histogram(losses)) >= losses.max()


def test_losses_above_every_edge_can_be_kept():
    high = torch.full((5,), 1e6, dtype=torch.float64)
    assert choose_threshold(histogram(high), histogram(high)) == torch.inf
    assert len(EDGES) + 1 == len(histogram(high))


def test_a_site_keeps_at_least_two():
    losses = torch.tensor([0.9, 0.2, 0.5, 0.7])
    assert kept(losses, 0.6).tolist() == [1, 2]
    assert kept(losses, 0.1).tolist() == [1, 2]
    assert kept(losses, torch.inf).tolist() == [0, 1, 2, 3]
    assert kept(losses[:1], 0.0).tolist() == [0]
