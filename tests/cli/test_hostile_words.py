"""Names and numbers that others wrote, in what is printed: text, never markup or a command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from toys import settings, train

import flr
from flr.core import arrays
from flr.core.errors import FlrError
from flr.models.model_file import NAME

CONFIG = """rounds = 2
method = "flr"
data = { name = "digits", train = 100, test = 50 }
partition = { kind = "iid", clients = 4 }
noise = { kind = "symmetric" }
train = { model = "mlp", participation = 0.5, epochs = 1 }
"""
DEEP = "[" * 5000 + "]" * 5000


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "experiment.toml"
    path.write_text(CONFIG)
    return path


def shell(*words: object, **options: object) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "flr.cli.main", *map(os.fspath, words)]
    return subprocess.run(command, check=False, stderr=subprocess.PIPE, **options)


@pytest.mark.parametrize("out", ["x[/b]", "[bold]x", ":smile:"])
def test_a_folder_is_no_markup(out, cli, config):
    seen = cli("run", config, "--out", out)
    assert seen.code == 0
    assert f"Run folder: {out}" in seen.out
    assert Path(out, "report.html").is_file()


def test_a_path_that_is_not_utf8_is_refused_before_training(config, tmp_path):
    name = os.fsdecode(b"caf\xe9")
    seen = shell("run", config, "--out", name, stdout=subprocess.PIPE, cwd=tmp_path)
    assert seen.returncode == 4
    assert seen.stderr.startswith(b"error: Expected a folder for the run whose path is UTF-8")
    assert not (tmp_path / name).exists()


def test_what_is_printed_to_a_full_disk_ends_no_training(config, tmp_path):
    with open("/dev/full", "wb") as full:  # noqa: PTH123
        seen = shell("run", config, "--out", "r", stdout=full, cwd=tmp_path)
    assert b"Traceback" not in seen.stderr
    assert b"No space left" in seen.stderr
    assert (tmp_path / "r" / "report.html").is_file()


def test_a_list_that_does_not_fit_is_said_to(tmp_path):
    with open("/dev/full", "wb") as full:  # noqa: PTH123
        seen = shell("list", "methods", "--json", stdout=full)
    assert seen.returncode == 4
    assert seen.stderr.startswith(b"error: Expected to read or write a file")
    assert b"No space left" in seen.stderr


def test_class_names_do_not_command_a_terminal(cli, config, tmp_path):
    cli("run", config, "--out", "r")
    weights, meta = arrays.load(tmp_path / "r" / NAME)
    meta["classes"] = [f"\x1b[2Jowned {k}" for k in range(10)]
    arrays.save(tmp_path / "m.safetensors", weights, meta)
    np.savez(tmp_path / "d.npz", x=np.zeros((2, 1, 8, 8), np.float32), y=np.arange(2))
    for command in ("predict", "evaluate"):
        seen = cli(command, tmp_path / "m.safetensors", tmp_path / "d.npz")
        assert "?[2Jowned" in seen.out + seen.err
        assert "\x1b" not in seen.out + seen.err


@pytest.mark.parametrize("name", ["summary.json", "run.json", "metrics.jsonl"])
def test_deep_nesting_in_a_run_folder_is_refused_in_words(name, cli, config, tmp_path):
    cli("run", config, "--out", "r")
    if name != "run.json":
        (tmp_path / "r" / "run.json").unlink()
    (tmp_path / "r" / name).write_text(f"{DEEP}\n{DEEP}\n")
    seen = cli("compare", "r") if name != "metrics.jsonl" else cli("resume", "r")
    assert "Traceback" not in seen.err
    assert seen.code in (0, 4)


@pytest.mark.parametrize("text", [DEEP, "5", "[1]", '"x"', json.dumps({"kind": "model"})])
def test_a_model_files_meta_is_refused_in_words(text, cli, config, tmp_path):
    import safetensors.torch

    cli("run", config, "--out", "r")
    weights, _ = arrays.load(tmp_path / "r" / NAME)
    safetensors.torch.save_file(weights, tmp_path / "m.safetensors", {"flr": text})
    seen = cli("predict", tmp_path / "m.safetensors", "digits")
    assert seen.code == 4
    assert "Traceback" not in seen.err


@pytest.mark.parametrize(
    ("key", "value"),
    [("classes", [None] * 10), ("input_shape", []), ("input_shape", [10**30]), ("mean", [0.0] * 3)],
)
def test_a_description_of_wrong_kinds_is_refused_in_words(key, value, cli, config, tmp_path):
    cli("run", config, "--out", "r")
    weights, meta = arrays.load(tmp_path / "r" / NAME)
    arrays.save(tmp_path / "m.safetensors", weights, {**meta, key: value})
    seen = cli("predict", tmp_path / "m.safetensors", "digits")
    assert seen.code == 4
    assert "do not fit the model" in seen.message


def test_eight_runs_at_once_without_out_get_a_folder_each(config, tmp_path):
    command = [sys.executable, "-m", "flr.cli.main", "run", str(config), "--workers", "1"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "cwd": tmp_path}
    started = [subprocess.Popen(command, **quiet) for _ in range(8)]
    assert [process.communicate()[1] and process.returncode for process in started] == [b""] * 8
    assert len(list((tmp_path / "runs").glob("*/report.html"))) == 8


def test_a_start_that_fails_leaves_no_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FlrError):
        flr.run(settings("flr", data={"train": 99999}))
    assert not (tmp_path / "runs").exists()


def test_an_own_run_that_names_code_is_used_without_a_word(cli, tmp_path):
    run = train("flr", tmp_path / "run")
    for path in (run.folder, run.folder / NAME):
        assert cli("evaluate", path, "digits").code == 0
