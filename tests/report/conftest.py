"""A made-up run: three sites, the second with wrong labels, and curves as a real run has them."""

from __future__ import annotations

import json
import math
import os
import socket
import subprocess
import sys
import threading
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


TRACKED: dict[str, Any] = {
    "rounds": 5,
    "workers": 1,
    "checkpoint_every": 2,
    "method": {"name": "flr", "lam": 0.5},
    "data": {"name": "digits", "train": 100, "test": 40},
    "partition": {"kind": "iid", "clients": 4},
    "noise": {"kind": "symmetric", "clients": 1.0},
    "train": {"model": "linear", "epochs": 1},
}

SCRIPT = """
import json, os, sys
seen = []
def watch(event, args):
    if event in ("socket.connect", "socket.getaddrinfo"):
        seen.append(str(args[1] if event == "socket.connect" else args[0]))
sys.addaudithook(watch)
import flr
folder, config = sys.argv[1], json.loads(sys.argv[2])
class Stop(Exception): pass
def stop(line):
    if line["round"] == 3:
        raise Stop
try:
    flr.run(config, out=folder, on_round=stop)
except Stop:
    pass
flr.resume(folder)
local = (os.sep, "b'", "b\\"", "localhost", "127.0.0.1", "('127.0.0.1'")
print(json.dumps([each for each in seen if not each.startswith(local)]))
"""


def _stopped_and_resumed(tracker: Any, folder: Path) -> list[str]:
    """Trains in `folder`; the addresses, names and proxy calls that were tried."""
    proxy = socket.create_server(("127.0.0.1", 0))
    calls: list[str] = []

    def listen() -> None:
        while True:
            try:
                caller, _ = proxy.accept()
            except OSError:
                return
            calls.append(caller.recv(200).decode("utf-8", "replace"))
            caller.close()

    threading.Thread(target=listen, daemon=True).start()
    address = f"http://127.0.0.1:{proxy.getsockname()[1]}"
    names = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
    own = {k: v for k, v in os.environ.items() if not k.startswith(("MLFLOW_", "WANDB_"))}
    own |= {name: address for each in names for name in (each, each.lower())}
    own |= {"NO_PROXY": "", "no_proxy": ""}
    config = json.dumps({**TRACKED, "trackers": [tracker]})
    command = [sys.executable, "-c", SCRIPT, str(folder), config]
    done = subprocess.run(command, env=own, capture_output=True, text=True)
    proxy.close()
    assert done.returncode == 0, done.stderr
    return [*json.loads(done.stdout.splitlines()[-1]), *calls]


@pytest.fixture(scope="session")
def stopped_and_resumed() -> Callable[[Any, Path], list[str]]:
    """A run with a tracker, stopped and resumed while somebody looks for connections."""
    return _stopped_and_resumed
