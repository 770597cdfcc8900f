"""Sweeps that are killed, dealt out, or crash: the runs of a study end the same, or alone."""

from __future__ import annotations

import csv
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

import flr
from flr.cli.main import app
from flr.core import registry
from flr.study import api, page, queue, results, study_file

STUDY = {
    "title": "A small study",
    "seeds": [1, 2],
    "config": {
        "rounds": 6,
        "checkpoint_every": 1,
        "data": {"name": "digits", "train": 120, "test": 60},
        "partition": {"kind": "iid", "clients": 4},
        "train": {"participation": 0.5, "epochs": 1, "model": {"name": "mlp", "hidden": 8}},
    },
    "grid": {"method": ["fedavg", "flr"], "noise": {"kind": ["none", "symmetric"]}},
}
TOML = """
title = "A small study"
seeds = [1, 2]
[config]
rounds = 6
checkpoint_every = 1
[config.data]
name = "digits"
train = 120
test = 60
[config.partition]
kind = "iid"
clients = 4
[config.train]
participation = 0.5
epochs = 1
model = { name = "mlp", hidden = 8 }
[grid]
method = ["fedavg", "flr"]
noise.kind = ["none", "symmetric"]
"""
CHANGING = ("seconds", "folder")  # from one time to the next


@pytest.fixture(scope="module", autouse=True)
def _one_worker():
    """Every run in its own process alone: these are too small to share."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(api, "processors", lambda: 1)
        yield


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The study as it is when nothing happens."""
    return flr.sweep(STUDY, out=tmp_path_factory.mktemp("whole"), jobs=1)


def lines(sweep: flr.Sweep) -> list[dict[str, str]]:
    """What its table says, but for time and place."""
    rows = csv.DictReader((sweep.folder / "runs.csv").read_text().splitlines())
    return [{key: value for key, value in row.items() if key not in CHANGING} for row in rows]


def curves(sweep: flr.Sweep) -> dict[str, object]:
    return {cell.hash: cell.content["curve"] for cell in sweep.results.cells.values()}


def test_killed_at_random_moments_it_goes_on_to_the_same_bits(whole, tmp_path):
    (tmp_path / "study.toml").write_text(TOML)
    command = [sys.executable, "-m", "flr.cli.main", "sweep", "study.toml", "--jobs", "2"]
    process = subprocess.Popen(
        [*command, "--out", "out"], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 300
    while not list((tmp_path / "out").glob("runs/*/metrics.jsonl")):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    time.sleep(random.random() / 2)  # noqa: S311 - any moment will do
    process.kill()
    assert process.wait() == -signal.SIGKILL
    process.stdout.read()  # type: ignore[union-attr]  # ends when the lanes have ended, too
    there = len(results.names(tmp_path / "out"))
    again = flr.sweep(tmp_path / "study.toml", out=tmp_path / "out", jobs=1)
    assert there < 8
    assert lines(again) == lines(whole)
    assert curves(again) == curves(whole)
    for mine, other in zip(again.runs, whole.runs, strict=True):
        name = "model.safetensors"
        assert (mine.folder / name).read_bytes() == (other.folder / name).read_bytes()


def test_dealt_out_by_array_indices_it_gives_the_same_table(whole, tmp_path):
    experiment = study_file.load(STUDY)
    trained = []
    for index in range(3):
        runner = api.make_runner(experiment, tmp_path, 1, share=(index, 3))
        before = len(results.names(tmp_path))
        assert not queue.train(runner, [(experiment, experiment.seeds)])
        trained.append(len(results.names(tmp_path)) - before)
    assert trained == [3, 3, 2]
    gathered = flr.sweep(STUDY, out=tmp_path, train=False)
    assert lines(gathered) == lines(whole)


PLUGIN = '''
import os
import signal
from dataclasses import dataclass

from flr import Method, register


@register("brittle")
@dataclass(frozen=True)
class Brittle(Method):
    """Ends its process, or raises what nobody expects.

    Leaves the site: nothing.
    """

    how: str = "dies"

    def regularize(self, c, net, logits, b):
        if self.how == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        return 1 / 0
'''


@pytest.fixture
def brittle(tmp_path, monkeypatch):
    """A method of somebody's own, that a lane has to import."""
    folder = tmp_path / "plugin"
    folder.mkdir()
    (folder / "brittle_method.py").write_text(PLUGIN)
    for kind in registry.KINDS:  # what is loaded first meanwhile would be lost afterwards
        registry.entries(kind)
    monkeypatch.setattr(registry, "_entries", dict(registry._entries))
    monkeypatch.syspath_prepend(str(folder))
    __import__("brittle_method")
    yield {**STUDY, "seeds": [1], "grid": {"method": [{"name": "brittle"}, "fedavg"]}}
    sys.modules.pop("brittle_method")


def test_a_run_that_kills_its_process_costs_itself_alone(brittle, tmp_path, monkeypatch):
    monkeypatch.setattr(queue, "ATTEMPTS", 1)
    experiment = study_file.load(brittle)
    runner = api.make_runner(experiment, tmp_path, 1)
    failed = queue.train_in_lanes(runner, [(experiment, (1,))], (), 1, apart=True)
    (why,) = failed.values()
    assert "killed 1 times" in why
    (cell,) = runner.gather(experiment).cells.values()
    assert cell.summary["method"] == "fedavg"


def test_a_run_that_raises_costs_itself_alone_and_says_where(brittle, tmp_path):
    brittle["grid"]["method"][0]["how"] = "raises"
    found = flr.sweep(brittle, out=tmp_path, jobs=1)
    (why,) = found.failed.values()
    assert "FLR" not in why
    assert "division by zero" in why
    assert found.frame()["method"].tolist() == ["fedavg"]
    assert "1 of 2 runs are finished" in found.page.read_text()
    assert "division by zero" in found.page.read_text()


def test_the_page_is_one_file_with_all_that_is_promised(whole):
    text = whole.page.read_text()
    heads = ("Mean accuracy", "Differences to FedAvg", "Ranks", "Learning curves", "For a paper")
    assert all(head in text for head in heads)
    assert text.count("data:image/png;base64,") == 2
    assert r"\mathbf" in text
    assert "<script" not in text
    assert text.count("report.html") == 8
    for name in ("table", "differences", "ranks", "measures"):
        assert {p.suffix for p in whole.folder.glob(f"{name}.*")} == {".md", ".csv", ".tex"}


def test_the_tidy_table_is_the_same_as_csv_as_parquet_and_in_pandas(whole):
    pandas = pytest.importorskip("pandas")
    frame = whole.frame()
    assert len(frame) == 8
    assert set(frame["noise.kind"]) == {"none", "symmetric"}
    first = json.loads((whole.runs[0].folder / "summary.json").read_text())
    assert frame["accuracy.last10"][0] == pytest.approx(first["accuracy"]["last10"], abs=5e-5)
    read = pandas.read_csv(whole.folder / "runs.csv", keep_default_na=False, na_values=[""])
    assert read["accuracy.best"].tolist() == frame["accuracy.best"].tolist()
    if (whole.folder / "runs.parquet").exists():
        parquet = pandas.read_parquet(whole.folder / "runs.parquet")
        assert parquet["accuracy.best"].tolist() == frame["accuracy.best"].tolist()
        assert parquet["noise.kind"].tolist() == frame["noise.kind"].tolist()


def test_runs_that_were_kept_can_be_compared_and_looked_at(whole):
    found = flr.compare(run for run in whole.runs if run.config.noise.name == "symmetric")
    assert found.frame()["method"].tolist() == ["fedavg", "flr"]
    run = whole.runs[0]
    assert run.frame()["round"].tolist() == [1, 2, 3, 4, 5, 6]
    assert "fedavg, seed 1" in run._repr_html_()


def test_what_is_not_to_be_kept_is_gone(tmp_path):
    small = {**STUDY, "keep": False, "seeds": [1], "grid": {"method": ["fedavg"]}}
    found = flr.sweep(small, out=tmp_path, jobs=1)
    assert len(found.results.cells) == 1
    assert not found.runs
    assert "Ranks" not in found.page.read_text()


def call(folder: Path, *words: str):
    before = Path.cwd()
    os.chdir(folder)
    try:
        return CliRunner().invoke(app, ["sweep", "study.toml", *words])
    finally:
        os.chdir(before)


def test_a_plan_says_runs_and_time_and_trains_nothing(tmp_path):
    (tmp_path / "study.toml").write_text(TOML)
    told = " ".join(call(tmp_path, "--plan", "--jobs", "2").output.split())
    assert "8 runs with seeds 1, 2; 8 to be trained, 2 at a time" in told
    assert "about 1 minute" in told
    told = " ".join(call(tmp_path, "--plan", "--index", "2", "--of", "3").output.split())
    assert "2 of this job of the array to be trained" in told
    assert not (tmp_path / "sweeps").exists()
    for words in (("--index", "3", "--of", "3"), ("--index", "0")):
        assert call(tmp_path, *words).exit_code == 2


def test_what_is_there_is_shown_without_training(whole, tmp_path):
    (tmp_path / "study.toml").write_text(TOML)
    out = str(whole.results.runner.folder)
    told = call(tmp_path, "--no-train", "--out", out).output
    assert "FedAvg" in told
    assert f"{page.INDEX}" in told
