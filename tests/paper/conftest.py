"""Curves as a real run has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.report.conftest import make_metrics


@pytest.fixture
def make_run() -> Callable[..., list[dict[str, Any]]]:
    return make_metrics
