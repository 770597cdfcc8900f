"""A made-up run: three sites, the second with wrong labels, and curves as a real run has them."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from flr.report import plots, summary
from flr.report.jsonl import append
from flr.report.memorization import KEYS
from flr.report.summary import NoiseRates

Line = dict[str, Any]


def make_metrics(rounds: int = 60, top: float = 0.95, memorized: float = 0.1) -> list[Line]:
    """Accuracy that rises, wrong labels that are first seen through and then memorized."""
    found = []
    for number in range(1, rounds + 1):
        learned = 1 - math.exp(-number / 8)
        shares = {}
        for side, more in (("server", 0.7), ("client", 1.0), ("client_noisy", 1.0)):
            wrong = memorized * more * learned
            right = (1 - wrong) * top * learned
            values = (top * learned, 1 - top * learned, right, 1 - wrong - right, wrong)
            shares[side] = dict(zip(KEYS, values, strict=True))
        found.append(
            {
                "round": number,
                "seconds": 0.5,
                "participants": [0, 1],
                "dropped": [2] if number % 20 == 0 else [],
                "refused": [{"client": 1, "reason": "NaN in <w>"}] if number == 7 else [],
                "bytes_up": 1000,
                "bytes_down": 2000,
                "accuracy": top * learned,
                "accuracy_per_class": {"cat": top * learned, "<script>alert(1)</script>": None},
                "memorization": shares,
            }
        )
    return found


def make_facts(**changes: Any) -> dict[str, Any]:
    noise = NoiseRates(0.2, 0.18, (0.0, 0.6, 0.0), (0.0, 0.54, 0.0))
    values = {"method": "flr", "seed": 1, "rounds": 60, "scenario": "abc123"}
    return values | {"noise": noise} | changes


@pytest.fixture
def metrics() -> list[Line]:
    return make_metrics()


@pytest.fixture
def facts() -> Callable[..., dict[str, Any]]:
    return make_facts


@pytest.fixture
def make_run() -> Callable[..., list[Line]]:
    return make_metrics


@pytest.fixture
def run_folder(tmp_path: Path, metrics: list[Line]) -> Path:
    """A finished run."""
    append(tmp_path / "metrics.jsonl", metrics)
    summary.save(tmp_path, summary.summarize(metrics, **make_facts()))
    (tmp_path / "config.toml").write_text('seed = 1\nmethod = "flr" # a < b\n')
    plots.curves(metrics, tmp_path / "curves.png", "flr, seed 1")
    return tmp_path


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)
