"""What the demo promises a newcomer."""

from __future__ import annotations

import pytest

from flr.simulation.api import Run


@pytest.mark.parametrize(
    "seed", [1, pytest.param(2, marks=pytest.mark.full), pytest.param(3, marks=pytest.mark.full)]
)
def test_flr_is_more_accurate_and_memorizes_less_than_half(seed, cli, tmp_path):
    result = cli("demo", "--seed", seed, "--out", tmp_path / "demo")
    assert result.code == 0, result.err
    assert all(len(line) <= 80 for line in result.out.splitlines() if "demo/" not in line)
    runs = {name: Run(tmp_path / "demo" / name) for name in ("fedavg", "elr", "flr")}
    fedavg, flr = runs["fedavg"].summary, runs["flr"].summary
    assert flr["accuracy"]["last10"] > fedavg["accuracy"]["last10"]
    memorized = [s["memorization"]["client"]["noisy_memorized"] for s in (flr, fedavg)]
    assert memorized[0] < memorized[1] / 2
    assert len({run.summary["scenario"] for run in runs.values()}) == 1
    for name in ("comparison.png", "index.html"):
        assert (tmp_path / "demo" / name).stat().st_size > 10_000
    assert "labels: " in result.out
    assert "look wrong" in result.out
    page = tmp_path / "demo" / "flr" / "audit" / "0" / "audit.html"
    assert page.is_file()
    assert str(page) in result.out
    assert cli("compare", *(run.folder for run in runs.values())).code == 0
