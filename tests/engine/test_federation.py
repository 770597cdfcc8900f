"""The engine where things go wrong: killed workers, damaged checkpoints, lost clients."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import hostile  # noqa: F401 - registers them
import pytest
import torch
from filelock import FileLock
from toys import ROUNDS, bits, settings, train, train_until

import flr
from flr.aggregate import mean
from flr.core import arrays, seeds
from flr.core.contract import Method, Server
from flr.core.errors import DataError, RunError
from flr.engine import checkpoint
from flr.engine.checkpoint import Checkpoint


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """An undisturbed run of a method that keeps client state."""
    return train("flr", tmp_path_factory.mktemp("whole") / "run")


def test_a_killed_worker_is_replaced_and_its_client_trained_again(tmp_path):
    """SIGKILL to a worker while it trains a client; the run goes on to the same bits."""
    method = {"name": "lethal-once", "scar": str(tmp_path / "scar")}
    wounded = train(method, tmp_path / "wounded", workers=2)
    assert (tmp_path / "scar").exists()
    assert bits(train(method, tmp_path / "unhurt")) == bits(wounded)


def test_idle_workers_that_were_killed_are_replaced(whole, tmp_path):
    killed = []

    def kill_workers(metrics):
        if metrics["round"] == 1:
            for child in multiprocessing.active_children():
                killed.append(child.pid)
                os.kill(child.pid, signal.SIGKILL)

    run = flr.run(settings("flr", workers=2), out=tmp_path / "run", on_round=kill_workers)
    assert len(killed) == 2
    assert bits(run) == bits(whole)


def test_a_client_that_kills_every_worker_stops_the_run(tmp_path):
    with pytest.raises(RunError, match=r"client \d+ in step 0; its worker process was killed 3"):
        flr.run(settings("lethal", workers=2), out=tmp_path / "run")


def test_a_failing_client_is_reported_with_its_error(tmp_path):
    with pytest.raises(RunError, match="no such luck"):
        flr.run(settings("failing", workers=2), out=tmp_path / "run")


def test_workers_end_when_the_main_process_is_killed(tmp_path):
    """kill -9 of the main process: no worker stays, and resume gives the same bits."""
    script = tmp_path / "main.py"
    script.write_text(
        "import flr, multiprocessing, os, signal, toys\n"
        "def die(metrics):\n"
        "    if metrics['round'] == 2:\n"
        "        print(*[c.pid for c in multiprocessing.active_children()], flush=True)\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        f"flr.run(toys.settings('flr', workers=2), out={str(tmp_path / 'run')!r}, on_round=die)\n"
    )
    path = os.pathsep.join([str(Path(__file__).parents[1] / "contract"), *sys.path])
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    workers = [int(pid) for pid in done.stdout.split()]
    assert len(workers) == 2
    deadline = time.monotonic() + 10
    while any(Path(f"/proc/{pid}").exists() and not zombie(pid) for pid in workers):
        assert time.monotonic() < deadline, "a worker outlived its parent"
        time.sleep(0.05)
    resumed = flr.resume(tmp_path / "run")
    assert bits(resumed) == bits(train("flr", tmp_path / "undisturbed"))


def zombie(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0] == "Z"


@pytest.mark.parametrize(
    "damage", ["truncated tensors", "truncated json", "flipped bit", "no tensors"]
)
def test_a_damaged_checkpoint_is_passed_over(damage, whole, tmp_path, caplog):
    train_until("flr", tmp_path / "run", 3)
    folder = tmp_path / "run" / "checkpoint"
    assert sorted(p.name for p in folder.glob("*.json")) == ["1.json", "2.json"]
    tensors, facts = folder / "2.safetensors", folder / "2.json"
    if damage == "truncated tensors":
        tensors.write_bytes(tensors.read_bytes()[:-100])
    elif damage == "truncated json":
        facts.write_bytes(facts.read_bytes()[:20])
    elif damage == "flipped bit":
        content = bytearray(tensors.read_bytes())
        content[-5] ^= 1
        tensors.write_bytes(content)
    else:
        tensors.unlink()
    assert [point.step for point in checkpoint.load_all(folder)] == [1]
    assert bits(flr.resume(tmp_path / "run")) == bits(whole)
    assert "checkpoint 2 is damaged" in caplog.text


def test_a_checkpoint_without_its_clients_states_is_passed_over(whole, tmp_path, caplog):
    train_until("flr", tmp_path / "run", 3)
    folder = tmp_path / "run" / "checkpoint"
    newest, older = checkpoint.load_all(folder)
    site = next(s for s, v in newest.versions.items() if older.versions.get(s) != v)
    path = folder / "state" / str(site) / f"{newest.versions[site]}.safetensors"
    path.write_bytes(path.read_bytes()[:50])
    assert bits(flr.resume(tmp_path / "run")) == bits(whole)
    assert f"lacks the state of clients [{site}]" in caplog.text


def test_resume_of_a_finished_run_changes_nothing(whole, tmp_path):
    run = train("flr", tmp_path / "run")
    lines = (run.folder / "metrics.jsonl").read_bytes()
    again = flr.resume(run.folder)
    assert bits(again) == bits(whole)
    assert (run.folder / "metrics.jsonl").read_bytes() == lines


def test_a_run_killed_before_its_first_checkpoint_starts_anew(whole, tmp_path):
    train_until("flr", tmp_path / "run", 2, checkpoint_every=4)
    assert not list((tmp_path / "run" / "checkpoint").glob("*.json"))
    resumed = flr.resume(tmp_path / "run")
    assert bits(resumed) == bits(whole)
    assert [m["round"] for m in resumed.metrics] == list(range(1, ROUNDS + 1))


def test_only_states_that_a_checkpoint_needs_are_kept(whole):
    folder = whole.folder / "checkpoint"
    needed = {(s, v) for point in checkpoint.load_all(folder) for s, v in point.versions.items()}
    kept = {(int(p.parent.name), int(p.stem)) for p in (folder / "state").glob("*/*")}
    assert kept == needed


def test_too_few_replies_stop_the_run_with_a_checkpoint(tmp_path):
    config = settings("flr", drop=0.6, min_replies=3, seed=3, checkpoint_every=4)
    with pytest.raises(RunError, match=r"needs at least 3 replies .*; \d of 3 clients .*dropped"):
        flr.run(config, out=tmp_path / "run")
    assert len(checkpoint.load_all(tmp_path / "run" / "checkpoint")) == 1


def test_a_run_folder_has_one_process_at_a_time(whole):
    with FileLock(whole.folder / ".lock"):
        caught: list[BaseException] = []

        def attempt():
            try:
                flr.resume(whole.folder)
            except DataError as error:
                caught.append(error)

        thread = threading.Thread(target=attempt)
        thread.start()
        thread.join()
    assert "another flr process" in str(caught[0])


def test_a_new_run_never_takes_the_place_of_another(whole):
    with pytest.raises(DataError, match="already holds one"):
        train("flr", whole.folder)


def test_the_callers_number_of_threads_comes_back(tmp_path):
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        train("fedavg", tmp_path / "run")
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_the_callers_random_numbers_stay(tmp_path):
    torch.manual_seed(3)
    expected = torch.rand(3)
    torch.manual_seed(3)
    train("flr", tmp_path / "run")
    assert torch.equal(torch.rand(3), expected)


def test_kept_momentum_continues_and_resumes(tmp_path):
    """One pooled site, one epoch a round, momentum kept: as training without a federation."""
    central = {"partition": {"kind": "central"}, "train": {"participation": 1.0}}
    fresh = train("fedavg", tmp_path / "fresh", **central)
    central["train"] = {**central["train"], "keep_optimizer": True}
    kept = train("fedavg", tmp_path / "kept", **central)
    assert bits(kept) != bits(fresh)
    train_until("fedavg", tmp_path / "stopped", 2, **central)
    assert bits(flr.resume(tmp_path / "stopped")) == bits(kept)


def test_a_client_that_was_not_asked_keeps_its_state(whole):
    """Accepted versions are the last step in which each client took part."""
    point = checkpoint.load_all(whole.folder / "checkpoint")[0]
    last = {}
    for line in whole.clients:
        last[line["client"]] = line["round"] - 1
    assert point.versions == last


def test_checkpoints_round_trip(tmp_path):
    server = Server({"model.0.w": torch.randn(3)}, {"h": torch.ones(2)}, 5, 4, 2, 1, mean)
    server.step, server.round = 7, 3
    checkpoint.save(tmp_path, Checkpoint.of(server, {2: 6, 0: 1}))
    (point,) = checkpoint.load_all(tmp_path)
    other = Server({}, {}, 5, 4, 2, 1, mean)
    point.restore(other)
    assert (other.step, other.round, point.versions) == (7, 3, {2: 6, 0: 1})
    assert torch.equal(other.arrays["model.0.w"], server.arrays["model.0.w"])
    assert torch.equal(other.state["h"], server.state["h"])


def test_equal_arrays_make_equal_files(tmp_path):
    named = {"b": torch.ones(2), "a": torch.zeros(3, dtype=torch.int64)}
    arrays.save(tmp_path / "1", named, {"x": 1, "y": [2]})
    arrays.save(tmp_path / "2", dict(reversed(named.items())), {"y": [2], "x": 1})
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()
    back, meta = arrays.load(tmp_path / "1")
    assert torch.equal(back["a"], named["a"])
    assert meta == {"x": 1, "y": [2]}


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "file"
    arrays.write_atomically(path, "old")
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        arrays.write_atomically(path, "new")
    monkeypatch.undo()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_generators_differ_by_every_part_of_their_key():
    keys = [(1, "a", 0, 0), (2, "a", 0, 0), (1, "b", 0, 0), (1, "a", 1, 0), (1, "a", 0, 1)]
    assert len({seeds.derive(*key) for key in keys}) == len(keys)
    draws = {float(torch.rand((), generator=seeds.generator(*key))) for key in keys}
    assert len(draws) == len(keys)


def test_sampling_is_uniform_without_replacement_and_sorted():
    counts = torch.zeros(10)
    server = Server({}, {}, 1, 10, 4, 1, mean)
    for step in range(2000):
        server.step = step
        chosen = server.sample()
        assert list(chosen) == sorted(set(chosen))
        counts[list(chosen)] += 1
    assert counts.sum() == 8000
    assert ((counts / 800 - 1).abs() < 0.15).all()


def test_the_base_method_is_fedavg(whole, tmp_path):
    server = Server({"model.0.w": torch.zeros(1)}, {}, 1, 3, 2, 1, mean)
    method = Method()
    task = method.plan(server)
    assert task is not None
    assert len(task.clients) == 2
    server.round = 1
    assert method.plan(server) is None


def test_summary_is_json_without_nan(whole):
    text = (whole.folder / "summary.json").read_text()
    assert "NaN" not in text
    assert json.loads(text)["rounds"] == ROUNDS
