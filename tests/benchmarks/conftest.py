"""What tests of benchmarks share."""

from __future__ import annotations

import pytest
import torch


@pytest.fixture
def one_thread():
    """The number of threads is the process's: other tests get theirs back."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
