"""Stops that leave something behind: what can go on from there, and how a user learns of it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from toys import ROUNDS, bits, settings, train, train_until

import flr
from flr.core import arrays
from flr.core.errors import ConfigError, DataError, RunError
from flr.engine import checkpoint


def test_a_stop_for_lack_of_replies_keeps_the_checkpoint_before(tmp_path):
    """Both checkpoints are whole, whether or not the step had one already."""
    for every in (1, 3):
        out = tmp_path / str(every)
        config = settings("flr", rounds=30, drop=0.4, min_replies=2, checkpoint_every=every, seed=4)
        with pytest.raises(RunError, match=str(out)):
            flr.run(config, out=out)
        for point in checkpoint.load_all(out / "checkpoint"):
            for site, version in point.versions.items():
                assert (out / "checkpoint/state" / str(site) / f"{version}.safetensors").is_file()


def test_ctrl_c_keeps_every_whole_round(tmp_path):
    def interrupt(metrics):
        if metrics["round"] == 3:
            raise KeyboardInterrupt

    config = settings("flr", checkpoint_every=ROUNDS)
    with pytest.raises(KeyboardInterrupt):
        flr.run(config, out=tmp_path / "run", on_round=interrupt)
    rounds = []
    resumed = flr.resume(tmp_path / "run", on_round=lambda metrics: rounds.append(metrics["round"]))
    assert rounds == list(range(3, ROUNDS + 1))  # the one that was cut short, and all after it
    assert bits(resumed) == bits(train("flr", tmp_path / "whole"))


def test_a_run_that_diverges_is_told_to_train_more_slowly(tmp_path):
    config = settings("fedavg")
    config["train"] = {**config["train"], "lr": 1e12}
    with pytest.raises(RunError, match=r"not finite.*Lower train\.lr in its config"):
        flr.run(config, out=tmp_path / "run")


@pytest.mark.parametrize(
    ("given", "got"), [("digits.npz", "str"), ((1, 2, 3), "tuple"), (7, "int")]
)
def test_data_of_an_odd_kind_is_one_clear_message(given, got):
    with pytest.raises(DataError, match=rf"\(x, y, x_test, y_test\).*got {got}"):
        flr.run(settings("fedavg"), data=given)


def test_a_config_of_an_odd_kind_is_one_clear_message():
    with pytest.raises(ConfigError, match="a path, a dictionary or a Config; got NoneType"):
        flr.run(None)


def test_a_gap_in_the_record_goes_back_to_an_older_checkpoint(tmp_path):
    whole = train("flr", tmp_path / "whole")
    train_until("flr", tmp_path / "run", 3)
    metrics = tmp_path / "run" / "metrics.jsonl"
    lines = metrics.read_text().splitlines(keepends=True)
    metrics.write_text(lines[0])
    resumed = flr.resume(tmp_path / "run")
    assert [line["round"] for line in resumed.metrics] == list(range(1, ROUNDS + 1))
    assert bits(resumed) == bits(whole)


def test_a_start_that_was_cut_short_can_be_tried_again(tmp_path, monkeypatch):
    real = arrays.write_atomically

    def cut(path, data, **options):
        if path.name == "config.toml":
            raise KeyboardInterrupt
        real(path, data, **options)

    monkeypatch.setattr("flr.simulation.api.write_atomically", cut)
    with pytest.raises(KeyboardInterrupt):
        train("fedavg", tmp_path / "run")
    monkeypatch.undo()
    with pytest.raises(DataError, match="has to be run again"):
        flr.resume(tmp_path / "run")
    assert train("fedavg", tmp_path / "run").summary["rounds"] == ROUNDS


def test_a_folder_with_other_things_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("five years of work")
    with pytest.raises(DataError, match=r"thesis\.tex"):
        train("fedavg", tmp_path)


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"train": {"model": "cnn"}}, "needs images"),
        ({"data": {"augment": "crop-flip"}}, "needs images"),
        ({"train": {"model": {"name": "mlp", "hidden": 10**12}}}, "cannot be built"),
    ],
)
def test_what_only_config_and_data_together_show_is_found_before_a_folder_is_made(
    changes, part, tmp_path
):
    rows = "".join(f"{i},{i * i % 7},{'ab'[i % 2]}\n" for i in range(60))
    (tmp_path / "d.csv").write_text("u,v,label\n" + rows)
    config = settings("fedavg", train={"model": "mlp"})
    config["data"] = {"name": "csv", "path": str(tmp_path / "d.csv")}
    for section, values in changes.items():
        config[section] = {**config[section], **values}
    with pytest.raises(ConfigError, match=part):
        flr.run(config, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_half_written_files_of_a_kill_are_cleared_away(tmp_path):
    train_until("flr", tmp_path / "run", 3)
    folder = tmp_path / "run" / "checkpoint"
    (folder / ".9.safetensors.abc").write_text("half")
    (folder / "9.safetensors").write_text("half")
    names = ("summary.json", "live.html", "mine")
    beside = [folder.parent / f".{name}.abcd_123" for name in names]
    for path in beside:
        path.write_text("half")
    flr.resume(tmp_path / "run")
    assert [path.exists() for path in beside] == [False, False, True]
    steps = {json.loads(p.read_text())["step"] for p in folder.glob("*.json")}
    assert {p.stem for p in folder.iterdir() if p.is_file()} == {str(step) for step in steps}


def test_a_failing_client_is_named_alike_with_one_worker_and_two(tmp_path):
    import hostile  # noqa: F401 - registers it

    messages = set()
    for workers in (1, 2):
        with pytest.raises(RunError, match="ArithmeticError: no such luck") as caught:
            flr.run(settings("failing", workers=workers), out=tmp_path / str(workers))
        messages.add(str(caught.value).split("client")[0])
    assert len(messages) == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("workers", [1, 2])
def test_a_batch_systems_signal_keeps_every_whole_round(number, workers, tmp_path):
    """In a session of its own, all of whose processes hear the signal, as SLURM does it."""
    script = tmp_path / "main.py"
    script.write_text(
        "import flr, os, signal, toys\n"
        f"signal.signal({int(number)}, signal.SIG_DFL)\n"
        "def end(metrics):\n"
        "    if metrics['round'] == 3:\n"
        f"        os.killpg(os.getpgid(0), {int(number)})\n"
        f"config = toys.settings('flr', workers={workers}, checkpoint_every={ROUNDS})\n"
        "try:\n"
        f"    flr.run(config, out={str(tmp_path / 'run')!r}, on_round=end)\n"
        "except KeyboardInterrupt:\n"
        "    print('stopped')\n"
    )
    path = os.pathsep.join([str(Path(__file__).parents[1] / "contract"), *sys.path])
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
        check=False,
        start_new_session=True,
    )
    assert (done.returncode, done.stdout) == (0, "stopped\n"), done.stderr
    rounds = []
    resumed = flr.resume(tmp_path / "run", on_round=lambda metrics: rounds.append(metrics["round"]))
    assert rounds == list(range(3, ROUNDS + 1))
    assert bits(resumed) == bits(train("flr", tmp_path / "whole"))


def test_signals_are_the_callers_again_after_a_run(tmp_path):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    seen = []
    try:
        flr.run(
            settings("fedavg", rounds=1),
            out=tmp_path / "run",
            on_round=lambda _: seen.extend(map(signal.getsignal, (signal.SIGHUP, signal.SIGTERM))),
        )
        assert seen[0] is signal.SIG_IGN
        assert callable(seen[1])
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_run_folder_that_is_removed_ends_the_run(workers, tmp_path):
    out = tmp_path / "run"

    def remove(metrics):
        if metrics["round"] == 2:
            shutil.rmtree(out)

    config = settings("flr", workers=workers, checkpoint_every=3)
    with pytest.raises(RunError, match="moved or removed while the run was working in it"):
        flr.run(config, out=out, on_round=remove)
    assert not (out / "summary.json").exists()


def test_a_record_that_is_removed_gives_no_report(tmp_path):
    def remove(metrics):
        if metrics["round"] == 2:
            (tmp_path / "run" / "metrics.jsonl").unlink()

    with pytest.raises(RunError, match=rf"Expected {ROUNDS} rounds in .*metrics\.jsonl; it has 0"):
        flr.run(settings("flr"), out=tmp_path / "run", on_round=remove)
    assert not (tmp_path / "run" / "summary.json").exists()
