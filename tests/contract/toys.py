"""What the contract suite trains: a tiny federation, and ways to disturb it."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import multiprocessing
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

import flr
from flr.client import worker
from flr.client.state import StateFiles
from flr.core import registry
from flr.simulation.api import Run

ROUNDS = 4
BENCHMARK = 20  # clean samples beside those of the sites, for methods that need some

TINY: dict[str, Any] = {
    "seed": 5,
    "rounds": ROUNDS,
    "workers": 1,
    "checkpoint_every": 1,
    "data": {"name": "digits", "train": 126, "test": 50},
    "partition": {"kind": "iid", "clients": 6},
    "noise": {"kind": "symmetric", "clients": 1.0, "floor": 0.3},
    "train": {
        "model": {"name": "toys:batchnorm_net", "width": 12},
        "participation": 0.5,
        "epochs": 1,
        "batch": 10,
    },
}

# A shell that starts the tests in the background has them, and what they start, ignore Ctrl-C.
HEARS_CTRL_C = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from flr.cli.main import main
main()
"""


def batchnorm_net(input_shape: tuple[int, ...], classes: int, width: int = 12) -> nn.Module:
    """A network with float and integer buffers."""
    inputs = int(torch.tensor(input_shape).prod())
    parts = [nn.Flatten(), nn.Linear(inputs, width), nn.BatchNorm1d(width), nn.ReLU()]
    return nn.Sequential(*parts, nn.Linear(width, classes))


def settings(method: Any, **changes: Any) -> dict[str, Any]:
    """The tiny federation with one method; sections are changed key by key."""
    config: dict[str, Any] = {**TINY, "method": in_brief(method)}
    for key, value in changes.items():
        merge = isinstance(value, dict) and key in ("train", "data")
        config[key] = {**config[key], **value} if merge else value
    if factory(method)().traits.supervised:
        config["scenario"] = {"benchmark": BENCHMARK}
        config["data"] = {**config["data"], "train": config["data"]["train"] + BENCHMARK}
    return config


def factory(method: Any) -> Any:
    """The class of a method, of the first one where there are several."""
    first = method[0] if isinstance(method, list) else method
    return registry.get("method", first["name"] if isinstance(first, dict) else first).factory


def in_brief(method: Any) -> Any:
    """The method, made for so few rounds where it is to be told how to use them."""
    several = (
        isinstance(method, str) and "iterations" in inspect.signature(factory(method)).parameters
    )
    return {"name": method, "iterations": 1} if several else method


def train(method: Any, out: Path, **changes: Any) -> Run:
    """A whole run."""
    return flr.run(settings(method, **changes), out=out)


def bits(run: Run) -> str:
    """What "the same bits" is about."""
    return hashlib.sha256((run.folder / "model.safetensors").read_bytes()).hexdigest()


class StoppedError(Exception):
    """Ends a run from outside."""


def train_until(method: Any, out: Path, round: int, **changes: Any) -> None:
    """A run that is stopped when this round is over, before its checkpoint."""

    def stop(metrics: dict[str, Any]) -> None:
        if metrics["round"] == round:
            raise StoppedError

    try:
        flr.run(settings(method, **changes), out=out, on_round=stop)
    except StoppedError:
        return
    raise AssertionError(f"the run ended before round {round}")


def train_until_killed(method: Any, out: Path, tasks: int, after_state: bool) -> None:
    """A run in a process of its own that gets SIGKILL inside a round: at the n-th client's task.

    The kill comes when the client has trained, or when its state is written but not accepted.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["toys", "flr.engine.pool", "torch._dynamo"])
    module = factory(method).__module__  # registers the method in the child too
    args = (module, settings(method), out, tasks, after_state)
    child = context.Process(target=_train_and_die, args=args)
    child.start()
    child.join()
    assert child.exitcode == -signal.SIGKILL, "the run ended before it was killed"


def _train_and_die(
    module: str, config: dict[str, Any], out: Path, tasks: int, after_state: bool
) -> None:
    importlib.import_module(module)
    remaining = [tasks]

    def then_die(function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any) -> Any:
            result = function(*args)
            remaining[0] -= 1
            if remaining[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return wrapped

    if after_state:
        StateFiles.write = then_die(StateFiles.write)  # type: ignore[method-assign]
    else:
        worker.run_task = then_die(worker.run_task)  # type: ignore[attr-defined]
    flr.run(config, out=out)
