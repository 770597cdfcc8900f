"""The commands, as a user types them."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
from toys import HEARS_CTRL_C

import flr
from flr.core import arrays, registry
from flr.simulation.api import Run

CONFIG = """rounds = 3
workers = 1
[data]
name = "digits"
train = 200
test = 60
[partition]
kind = "iid"
clients = 5
[noise]
kind = "symmetric"
floor = 0.2
[train]
participation = 0.6
epochs = 1
"""


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "experiment.toml").write_text(CONFIG)
    return "experiment.toml"


def test_a_run_folder_is_complete(cli, config, tmp_path):
    result = cli("run", config, "--set", "method=elr", "--set", "noise.floor=0.4", "--out", "r")
    assert result.code == 0, result.err
    assert "After 3 rounds the model is right on" in " ".join(result.out.split())
    names = {p.name for p in (tmp_path / "r").iterdir()}
    assert names >= {
        "config.toml",
        "scenario.safetensors",
        "metrics.jsonl",
        "clients.jsonl",
        "summary.json",
        "model.safetensors",
        "model-card.md",
        "checkpoint",
        "curves.png",
        "report.html",
    }
    resolved = tomllib.loads((tmp_path / "r" / "config.toml").read_text())
    assert resolved["noise"]["floor"] == 0.4
    assert resolved["method"]["name"] == "elr"
    assert resolved["train"]["momentum"] == 0.5, "defaults are written too"
    again = cli("run", "r/config.toml", "--out", "again")
    assert again.code == 0
    model = "model.safetensors"
    assert (tmp_path / "r" / model).read_bytes() == (tmp_path / "again" / model).read_bytes()


def test_summary_has_the_promised_keys(cli, config, tmp_path):
    cli("run", config, "--out", "r")
    summary = json.loads((tmp_path / "r" / "summary.json").read_text())
    five = {"clean_correct", "clean_wrong", "noisy_correct", "noisy_wrong", "noisy_memorized"}
    assert set(summary["accuracy"]) >= {"best", "last", "last10"}
    for side in ("server", "client", "client_noisy"):
        assert set(summary["memorization"][side]) == five
        assert set(summary["memorization"]["last10"][side]) == five
    assert set(summary["noise"]) >= {"nominal", "realised"}
    assert summary["noise"]["realised"] < summary["noise"]["nominal"], (
        "the true class is redrawn too"
    )
    assert {"scenario", "seconds"} <= set(summary)
    metrics = [json.loads(line) for line in (tmp_path / "r" / "metrics.jsonl").open()]
    assert summary["accuracy"]["last"] == metrics[-1]["accuracy"]
    assert summary["accuracy"]["best"] == max(m["accuracy"] for m in metrics)
    assert summary["accuracy"]["last10"] == pytest.approx(np.mean([m["accuracy"] for m in metrics]))


def test_resume_and_compare(cli, config, tmp_path):
    for method in ("fedavg", "flr"):
        for seed in (1, 2):
            out = f"{method}-{seed}"
            code = cli(
                "run", config, "--set", f"method={method}", "--set", f"seed={seed}", "--out", out
            )
            assert code.code == 0
    assert cli("resume", "flr-1").code == 0
    runs = ["fedavg-1", "fedavg-2", "flr-1", "flr-2"]
    table = cli("compare", *runs)
    assert table.code == 0
    assert all(len(line) <= 80 for line in table.out.splitlines())
    rows = list(csv.DictReader(io.StringIO(cli("compare", *runs, "--csv").out)))
    assert [row["method"] for row in rows] == ["fedavg", "flr"]
    assert {row["n"] for row in rows} == {"2"}
    assert r"\begin{tabular}" in cli("compare", *runs, "--latex").out
    assert cli("compare", *runs, "--markdown").out.startswith("|")
    again = csv.DictReader(io.StringIO(cli("compare", "flr-1", "flr-2", *runs, "--csv").out))
    assert [row["method"] for row in again] == ["flr", "fedavg"], "the first one is the reference"
    refused = cli("compare", "fedavg-1", "fedavg-2", "flr-1")
    assert refused.code == 4
    assert "lacks scenario" in refused.message


def test_a_new_run_starts_from_the_weights_of_a_finished_one(cli, config, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    assert cli("run", config, "--out", first).code == 0
    changes = ("--set", "train.lr=1e-30", "--set", "rounds=1")
    assert cli("run", "--from", first, *changes, "--out", second).code == 0
    before, after = (arrays.load(f / "model.safetensors")[0] for f in (first, second))
    assert all(np.array_equal(before[name], after[name]) for name in before)
    assert cli("run").code == 2


def test_a_saved_scenario_is_shared(cli, config, tmp_path):
    cli("run", config, "--set", "method=fedavg", "--out", "a")
    text = CONFIG.split("[partition]")[0] + "[scenario]\npath = 'a/scenario.safetensors'\n[train]\n"
    (tmp_path / "b.toml").write_text(text + "participation = 0.6\nepochs = 1\n")
    assert cli("run", "b.toml", "--set", "seed=9", "--out", "b").code == 0
    assert Run(tmp_path / "a").summary["scenario"] == Run(tmp_path / "b").summary["scenario"]
    table = cli("compare", "a", "b", "--csv")
    assert table.code == 0, table.err
    assert [row["method"] for row in csv.DictReader(io.StringIO(table.out))] == ["fedavg", "flr"]


def test_what_is_predicted_is_no_formula(cli, config, tmp_path):
    assert cli("run", config, "--out", "r").code == 0
    tensors, meta = arrays.load(Path("r/model.safetensors"))
    meta["classes"] = [f"=1+{k}" for k in range(10)]
    file = Path("from-elsewhere.safetensors")
    arrays.save(file, tensors, meta)
    np.savez(tmp_path / "x.npz", x=np.zeros((3, 1, 8, 8), np.uint8))
    assert cli("predict", file, "x.npz", "--out", "p.csv").code == 0
    with Path("p.csv").open(newline="") as table:
        rows = list(csv.DictReader(table))
    assert rows
    assert all(row["predicted"].startswith("'=1+") for row in rows)


def test_predict_and_evaluate_need_only_the_model_file(cli, config, tmp_path):
    cli("run", config, "--out", "r")
    (tmp_path / "r" / "model.safetensors").rename(tmp_path / "m.safetensors")
    shown = json.loads(cli("evaluate", "m.safetensors", "digits", "--json").out)
    assert shown["samples"] == 360
    assert set(shown["per_class"]) == {str(n) for n in range(10)}
    data = registry.get("dataset", "digits").factory().load()
    np.savez(tmp_path / "x.npz", x=data.test.x.numpy())
    rows = list(csv.DictReader(io.StringIO(cli("predict", "m.safetensors", "x.npz").out)))
    right = [int(r["predicted"]) == y for r, y in zip(rows, data.test.y.tolist(), strict=True)]
    assert np.mean(right) == pytest.approx(shown["accuracy"])
    assert all(0 <= float(r["probability"]) <= 1 for r in rows)
    cli("predict", "m.safetensors", "x.npz", "--out", "p.csv")
    assert len((tmp_path / "p.csv").read_text().splitlines()) == 361
    no_labels = cli("evaluate", "m.safetensors", "x.npz")
    assert no_labels.code == 4
    assert "needs labels" in no_labels.message
    np.savez(tmp_path / "bad.npz", x=np.zeros((3, 5)))
    assert "expects inputs of shape (1, 8, 8)" in cli("predict", "m.safetensors", "bad.npz").message


def test_a_model_file_that_names_code_needs_trust(cli, config, tmp_path):
    done = cli("run", config, "--set", "train.model='toys:batchnorm_net'", "--out", "r")
    assert done.code == 0, done.err
    assert cli("evaluate", "r", "digits").code == 0  # one's own run needs no word
    moved = shutil.copy(Path("r") / "model.safetensors", "from-elsewhere.safetensors")
    refused = cli("evaluate", moved, "digits")
    assert refused.code == 4
    assert "--trust" in refused.message
    assert cli("evaluate", moved, "digits", "--trust").code == 0


def test_code_that_is_not_there_is_not_the_fault_of_the_model_file(cli, config, monkeypatch):
    cli("run", config, "--set", "train.model='toys:batchnorm_net'", "--out", "r")
    monkeypatch.setitem(sys.modules, "toys", None)
    refused = cli("evaluate", "r", "digits", "--trust")
    assert refused.code == 3
    assert "cannot be imported" in refused.message
    assert "PYTHONPATH" in refused.message


def test_numbers_do_not_depend_on_workers_option(cli, config, tmp_path):
    cli("run", config, "--out", "one", "--workers", "1")
    cli("run", config, "--out", "two", "--workers", "2")
    model = "model.safetensors"
    assert (tmp_path / "one" / model).read_bytes() == (tmp_path / "two" / model).read_bytes()


@pytest.mark.parametrize(
    "kind",
    [
        *("methods", "models", "datasets", "partitions", "noises", "aggregators", "attacks"),
        "backbones",
    ],
)
def test_everything_listed_can_be_described(kind, cli):
    names = [entry["name"] for entry in json.loads(cli("list", kind, "--json").out)]
    assert names == sorted(names)
    plain = cli("list", kind).out
    for name in names:
        assert name in plain
        described = cli("describe", name)
        assert described.code == 0
        assert name in described.out
        assert all(len(line) <= 80 for line in described.out.splitlines()), described.out


def test_describe_says_what_leaves_and_reaches_a_site(cli):
    text = cli("describe", "flr").out
    for part in ("log(1 - <p_i, t_i>)", "Leaves the site", "Reaches the site", "Stays at the site"):
        assert part in text
    assert "lam = 2.0" in text


def test_check_reads_the_split_and_says_so(cli, config, tmp_path):
    result = cli("check", config)
    assert result.code == 0
    assert "5 sites with 40 to 40 samples" in " ".join(result.out.split())
    assert not (tmp_path / "runs").exists()


def test_arrays_in_python(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    x = rng.normal(size=(60, 4)).astype(np.float32) + y[:, None]
    settings = {"rounds": 2, "workers": 1, "partition": {"kind": "iid", "clients": 4}}
    run = flr.run(settings, data=(x, y))
    assert run.folder.parent.name == "runs"
    assert 0 <= run.summary["accuracy"]["last"] <= 1
    assert len(run.metrics) == 2
    assert run.config.rounds == 2
    probabilities = run.model().probabilities(__import__("torch").from_numpy(x))
    assert probabilities.shape == (60, 3)
    again = flr.run(settings, data=(x, y))
    assert again.folder != run.folder


def test_a_data_set_by_name_is_scored_by_class_name(cli, tmp_path, monkeypatch):
    """The same digits under other names and in another order: labels go by name."""
    monkeypatch.chdir(tmp_path)
    data = registry.get("dataset", "digits").factory().load()
    order = np.array([3, 1, 4, 0, 5, 9, 2, 6, 8, 7])
    names = np.array([str(digit) for digit in order])
    y = np.argsort(order)[data.train.y.numpy()]
    np.savez("d.npz", x=data.train.x.numpy(), y=y, classes=names)
    settings = {"rounds": 4, "workers": 1, "method": "fedavg", "train": {"participation": 1.0}}
    flr.run(settings | {"data": {"name": "npz", "path": "d.npz"}}, out="r")
    assert json.loads(cli("evaluate", "r", "digits", "--json").out)["accuracy"] > 0.8
    few = data.train.y < 5
    np.savez("few.npz", x=data.train.x[few].numpy(), y=data.train.y[few].numpy())
    flr.run(settings | {"data": {"name": "npz", "path": "few.npz"}}, out="few")
    refused = cli("evaluate", "few", "digits")
    assert refused.code == 4
    assert "Traceback" not in refused.err


@pytest.mark.parametrize("out", ["/proc/nope", "x" * 300, "file/below"])
def test_places_that_cannot_be_written_are_one_message(out, cli, config, tmp_path):
    (tmp_path / "file").write_text("")
    result = cli("run", config, "--out", out)
    assert result.code == 4
    assert result.err.startswith("error: ")
    assert "Traceback" not in result.err


def test_ctrl_c_says_how_to_go_on(cli, config, monkeypatch):
    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("flr.simulation.api.run_in_process", interrupt)
    result = cli("run", config, "--out", "a folder")
    assert result.code == 130
    assert "To go on: flr resume 'a folder'" in result.err
    monkeypatch.setattr("flr.simulation.api.load_scenario", interrupt)
    result = cli("run", config, "--out", "r")
    assert result.code == 130
    assert "nothing was written" in result.err


def test_ctrl_c_at_the_start_is_no_traceback_of_workers_either(config, tmp_path):
    command = [sys.executable, "-c", HEARS_CTRL_C, "run", config, "--workers", "2", "--out", "r"]
    with subprocess.Popen(
        [*command, "--set", "rounds=9999"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as run:
        assert run.stdout is not None
        assert run.stdout.readline().startswith("Run folder")
        time.sleep(0.5)  # workers' mother imports torch, which takes longer
        os.killpg(run.pid, signal.SIGINT)
        _, said = run.communicate()
    assert run.returncode == 130, said
    assert said.startswith("Stopped")
    assert "Traceback" not in said


def test_a_run_goes_on_when_nobody_reads_what_it_prints(config, tmp_path):
    command = [sys.executable, "-m", "flr.cli.main", "run", config, "--set", "rounds=20"]
    with subprocess.Popen(
        [*command, "--out", "r"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout is not None
        assert run.stderr is not None
        assert run.stdout.readline().startswith("Run folder")
        run.stdout.close()
        said = run.stderr.read()
    assert run.returncode == 0, said
    assert said == ""
    assert (tmp_path / "r" / "summary.json").is_file()


def test_a_run_that_diverged_without_nan_says_so(cli, config, tmp_path):
    result = cli("run", config, "--set", "train.lr=1e4", "--out", "far")
    assert result.code == 0
    assert "Training has diverged: the largest weight of the model is" in result.out
    assert "Training has diverged" in (tmp_path / "far" / "report.html").read_text()
    assert "diverged" not in cli("run", config, "--out", "near").out


def test_the_version(cli):
    assert cli("--version").out == f"flr {flr.__version__}\n"


def test_a_table_that_there_is_not_is_a_wrong_word(cli):
    result = cli("reproduce", "table-cifar1000")
    assert result.code == 2
    assert 'Did you mean "table-cifar100"' in result.message


def test_a_broken_plugin_is_named_and_the_rest_works(tmp_path, monkeypatch):
    info = tmp_path / "bad-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: bad\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[flr]\nbad = no_such_module\n")
    done = subprocess.run(
        [sys.executable, "-m", "flr.cli.main", "list", "noises"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "symmetric" in done.stdout
    assert "no_such_module" in done.stderr


def test_the_list_of_commands_has_a_part_for_each_door(cli):
    said = cli("--help").out
    parts = ("Compare methods", "Check my labels", "Look something up", "Run a federation")
    assert sorted(parts, key=said.index) == list(parts)
    assert said.index(" demo ") < said.index(" sweep ") < said.index(" audit ")


@pytest.mark.skipif(version("click") >= "8.5", reason="older than constraints.txt: upgrade it")
def test_help_says_what_arguments_are(cli):
    assert "An experiment as TOML." in cli("run", "--help").out
