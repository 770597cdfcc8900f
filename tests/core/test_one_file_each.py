"""A package of others' brings one of each kind, each from one file, and nothing else is told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

FILES = {
    "method": '''
"""Keeps logits small."""
from dataclasses import dataclass
from flr import Method, register

@register("my-method")
@dataclass(frozen=True)
class MyMethod(Method):
    """Adds the mean squared logit to the loss.

    Leaves the site: weights and the number of samples.
    """

    lam: float = 0.01

    def regularize(self, c, net, logits, b):
        return self.lam * logits.square().mean()
''',
    "noise": '''
"""The class before."""
from dataclasses import dataclass
import numpy as np
from flr import register
from flr.scenario.noises.common import TransitionNoise

@register("my-noise", kind="noise")
@dataclass(frozen=True)
class MyNoise(TransitionNoise):
    """A selected sample of class y gets y - 1 modulo C."""

    def transition(self, classes, noise_map):
        return np.roll(np.eye(len(classes)), -1, axis=1)
''',
    "partition": '''
"""Sample after sample."""
from dataclasses import dataclass
import numpy as np
from flr import register
from flr.scenario.partitions.common import Partition

@register("my-partition", kind="partition")
@dataclass(frozen=True)
class MyPartition(Partition):
    """Sample i goes to site i modulo N."""

    def assign(self, labels, counts, rng):
        return np.arange(len(labels)) % self.clients, ["Dealt in order."]
''',
    "model": '''
"""A straight line."""
import math
from torch import nn
from flr import register

@register("my-model", kind="model")
def my_model(input_shape, classes, /, bias: bool = True):
    """One linear layer."""
    return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(input_shape), classes, bias))
''',
    "dataset": '''
"""Three clouds of points."""
from dataclasses import dataclass
import numpy as np
from flr import register
from flr.data.build import from_arrays

@register("my-data", kind="dataset")
@dataclass(frozen=True)
class MyData:
    """Points around three corners."""

    points: int = 120

    def load(self):
        y = np.arange(self.points) % 3
        x = np.random.default_rng(0).normal(size=(self.points, 2)) / 4 + np.eye(3)[y, :2]
        return from_arrays(x, y, classes=("a", "b", "c"))
''',
    "aggregator": '''
"""Only the first counts."""
from flr import register

@register("my-aggregator", kind="aggregator")
def my_aggregator(replies, prefix, previous, buffers=frozenset(), /):
    """The weights of the first reply."""
    return {name: replies[0].arrays[name] for name in previous if name.startswith(prefix)}
''',
    "attack": '''
"""Standing still."""
from dataclasses import dataclass
from flr import register
from flr.scenario.attacks.common import Attack, Share

@register("my-attack", kind="attack")
@dataclass(frozen=True)
class MyAttack(Attack):
    """Attackers answer with the weights they were sent."""

    clients: Share = 0.5

    def weights(self, sent, received, known, rng):
        return received
''',
    "optimizer": '''
"""Only the signs of gradients."""
import torch
from flr import register

class Signs:
    def __init__(self, parameters, lr):
        self.parameters, self.lr = list(parameters), lr

    @torch.no_grad()
    def step(self):
        for p in self.parameters:
            p -= self.lr * p.grad.sign()

@register("my-optimizer", kind="optimizer")
def my_optimizer(parameters, lr, momentum, weight_decay, /, scale: float = 1.0):
    """Steps of one size."""
    return Signs(parameters, lr * scale)
''',
    "schedule": '''
"""Half of it, later."""
from flr import register

@register("my-schedule", kind="schedule")
def my_schedule(round, rounds, /):
    """Half in the second half."""
    return 1.0 if 2 * round < rounds else 0.5
''',
    "tracker": '''
"""A line a round."""
from dataclasses import dataclass
from typing import ClassVar
from flr import register

class Lines:
    def __init__(self, path):
        self.path = path

    def log(self, round, values):
        with self.path.open("a") as file:
            print(round, *sorted(values), file=file)

    def close(self):
        pass

@register("my-tracker", kind="tracker")
@dataclass(frozen=True)
class MyTracker:
    """Lines in a text file."""

    file: str = "lines.txt"
    package: ClassVar[str] = "json"

    def session(self, run):
        return Lines(run.folder / self.file)
''',
}

CONFIG = """
rounds = 2
method = { name = "my-method", lam = 0.02 }
aggregate = "my-aggregator"
trackers = [{ name = "my-tracker", file = "mine.txt" }]
[data]
name = "my-data"
points = 90
[partition]
kind = "my-partition"
clients = 4
[noise]
kind = "my-noise"
floor = 0.5
[attack]
kind = "my-attack"
[train]
model = { name = "my-model", bias = false }
participation = 1.0
epochs = 1
optimizer = { name = "my-optimizer", scale = 0.1 }
lr_schedule = "my-schedule"
"""

WAYS = ("from-command-line", "from-python")

DRIVER = """
import contextlib, io, json, sys, tomllib
import flr
from flr.cli.main import main

def command(*words):
    sys.argv = ["flr", *words]
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.suppress(SystemExit):
        main()
    return out.getvalue()

if __name__ == "__main__":
    listed = {}
    for kind in sys.argv[1:]:
        listed[kind] = [entry["name"] for entry in json.loads(command("list", kind, "--json"))]
    command("run", "c.toml", "--set", "workers=1", "--out", "from-command-line")
    with open("c.toml", "rb") as file:
        flr.run({**tomllib.load(file), "workers": 2}, out="from-python")
    print(json.dumps(listed))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Runs in a process that sees the package, as if pip had installed it."""
    site, folder = tmp_path_factory.mktemp("site"), tmp_path_factory.mktemp("run")
    info = site / "flr_mine-0.1.dist-info"
    for place in (site / "flr_mine", info):
        place.mkdir()
    for kind, text in FILES.items():
        (site / "flr_mine" / f"{kind}.py").write_text(text)
    points = "".join(f"{kind} = flr_mine.{kind}\n" for kind in FILES)
    (info / "entry_points.txt").write_text(f"[flr]\n{points}")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: flr-mine\nVersion: 0.1\n")
    (folder / "c.toml").write_text(CONFIG)
    (folder / "driver.py").write_text(DRIVER)
    paths = os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "driver.py", *(f"{kind}s" for kind in FILES)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (folder / "listed.json").write_text(done.stdout)
    return folder


@pytest.mark.parametrize("kind", FILES)
def test_each_is_listed(kind, folder):
    name = {"dataset": "my-data"}.get(kind, f"my-{kind}")
    assert name in json.loads((folder / "listed.json").read_text())[f"{kind}s"]


def test_all_of_them_run_from_the_command_line_and_from_python(folder):
    found = [json.loads((folder / way / "summary.json").read_text()) for way in WAYS]
    assert [summary["method"] for summary in found] == ["my-method"] * 2
    assert [summary["rounds"] for summary in found] == [2, 2]
    for name in ("model.safetensors", "scenario.safetensors"):
        one, two = ((folder / way / name).read_bytes() for way in WAYS)
        assert one == two, name
    for way in WAYS:
        lines = (folder / way / "mine.txt").read_text().splitlines()
        assert [line.split()[0] for line in lines] == ["1", "2"]
