"""Mixup against outputs of the authors' code, its draws, and its stacks."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F

from flr.core.contract import Batch
from flr.methods.mixup import Mixup, as_rows, draw_weight, mix, mixed


def double(values) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_inputs_and_criterion_are_the_recorded_ones(golden):
    recorded = golden("mixup")
    y, partner = torch.tensor(recorded["y"]), torch.tensor(recorded["permutation"])
    plain = Batch(double(recorded["x"]), y, torch.arange(len(y)))
    b = mixed(plain, 3, partner, recorded["lam"])
    torch.testing.assert_close(b.x, double(recorded["mixed_x"]), atol=1e-7, rtol=0)
    assert y[partner].tolist() == recorded["y_b"]
    loss = F.cross_entropy(double(recorded["logits"]), b.y)
    torch.testing.assert_close(loss, double(recorded["criterion"]), atol=1e-7, rtol=0)


def test_rows_are_mixed_like_class_numbers():
    y, partner = torch.tensor([0, 2, 1]), torch.tensor([2, 0, 1])
    rows = as_rows(y, 3)
    assert torch.equal(as_rows(rows, 3), rows)
    assert torch.allclose(mix(rows, partner, 0.25).sum(1), torch.ones(3))


def test_the_weight_is_drawn_from_beta():
    rng = torch.Generator().manual_seed(1)
    for alpha in (0.5, 1.0, 4.0):
        drawn = torch.tensor([draw_weight(alpha, rng) for _ in range(4000)])
        assert drawn.mean() == pytest.approx(0.5, abs=0.02)
        assert drawn.var() == pytest.approx(1 / (4 * (2 * alpha + 1)), rel=0.1)
    assert draw_weight(0.0, rng) == 1.0


def epoch(alpha, seed):
    x, y = torch.arange(10.0).view(5, 2), torch.tensor([0, 1, 2, 0, 1])

    def make(c):
        for index in (torch.tensor([4, 0, 2]), torch.tensor([3, 1])):
            yield Batch(x[index], y[index], index)

    c = SimpleNamespace(
        make_batches=make,
        rng=torch.Generator().manual_seed(seed),
        data=SimpleNamespace(classes=3),
    )
    return list(Mixup(alpha).batches(c, 0))


def test_a_mixed_batch_remembers_what_it_was_made_of():
    batches = epoch(1.0, 7)
    assert len({b.weight for b in batches}) == 2  # one for each batch
    for b in batches:
        assert sorted(b.partner.tolist()) == list(range(len(b.x)))
        assert torch.equal(b.index, b.plain.index)
        assert torch.equal(b.x, mix(b.plain.x, b.partner, b.weight))
    again = epoch(1.0, 7)
    assert all(torch.equal(a.x, b.x) for a, b in zip(batches, again, strict=True))


def test_without_a_beta_nothing_is_mixed():
    assert all(torch.equal(b.x, b.plain.x) for b in epoch(0.0, 7))
