"""What a notebook defines is trained by worker processes, too, to the same bits."""

from __future__ import annotations

import subprocess
import sys

NOTEBOOK = """
from dataclasses import dataclass

import torch
import flr

@flr.register("mine", title="Mine", paper="nobody", year=2026)
@dataclass(frozen=True)
class Mine(flr.Method):
    '''Cross-entropy with a weight.

    Equation:
        L = weight * CE
    Leaves the site: weights.
    '''
    weight: float = 0.5

    def criterion(self, c, logits, b):
        return self.weight * torch.nn.functional.cross_entropy(logits, b.y)

config = {
    "rounds": 2,
    "method": {"name": "mine", "weight": 0.3},
    "data": {"name": "digits", "train": 60, "test": 20},
    "partition": {"kind": "iid", "clients": 3},
    "train": {"model": "linear", "epochs": 1},
}
models = []
for workers in (1, 2):
    run = flr.run(config | {"workers": workers}, out=f"run-{workers}")
    models.append((run.folder / "model.safetensors").read_bytes())
assert models[0] == models[1]
print("the same")
"""


def test_a_method_of_a_notebook_runs_in_workers(tmp_path):
    # like a notebook, a program from standard input has no file that a worker could import
    done = subprocess.run(
        [sys.executable, "-"], input=NOTEBOOK, cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("the same\n")
