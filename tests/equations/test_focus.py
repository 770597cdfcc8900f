"""FOCUS's weights by hand."""

from __future__ import annotations

import math

import torch

from flr.methods.focus import credibility, focus_weights


def double(*values) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_credibility_is_one_minus_the_share_of_the_losses():
    on_clean, on_own = double(0.1, 0.4, 1.0), double(0.2, 0.2, 0.7)
    powers = [math.exp(2.0 * e) for e in (0.3, 0.6, 1.7)]
    expected = double(*(1 - power / sum(powers) for power in powers))
    torch.testing.assert_close(credibility(on_clean, on_own, 2.0), expected, atol=1e-12, rtol=0)


def test_large_losses_do_not_overflow():
    assert credibility(double(1e6, 0.0), double(1e6, 1.0), 1.0).tolist() == [0.0, 1.0]


def test_alpha_zero_trusts_all_alike():
    torch.testing.assert_close(credibility(double(1, 2), double(3, 4), 0.0), double(0.5, 0.5))


def test_weights_are_samples_times_credibility():
    found = focus_weights(double(10, 30), double(0.9, 0.1))
    torch.testing.assert_close(found, double(0.75, 0.25))


def test_where_nobody_is_credible_samples_count():
    torch.testing.assert_close(focus_weights(double(1, 3), double(0, 0)), double(0.25, 0.75))
