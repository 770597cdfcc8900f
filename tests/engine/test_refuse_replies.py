"""Numbers that no distance can hold are refused like those that are none."""

from __future__ import annotations

import pytest
import torch

from flr.engine.refuse_replies import LARGEST, not_finite


@pytest.mark.parametrize("value", [1e20, -3e38, float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_what_is_not_finite_once_squared_is_refused(value, dtype):
    sent = {"a": torch.zeros(3), "b": torch.tensor([0.0, value, 1.0]).to(dtype)}
    assert not_finite(sent).startswith("b has numbers that are not finite")


def test_large_numbers_whose_squares_are_finite_pass():
    """Even where the sum of the squares is not; and half precision has small squares."""
    assert not not_finite({"a": torch.full((1000,), 0.9 * LARGEST)})
    assert not not_finite({"a": torch.full((1000,), 60000.0).half(), "n": torch.tensor(2)})
    assert not not_finite({"a": torch.empty(0), "n": torch.tensor([2**62])})
