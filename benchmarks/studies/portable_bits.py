"""What portable bits cost: two processes take turns round by round, one with the machine's bits.

`python -m benchmarks.studies.portable_bits` prints a table. Processor time is compared, not time:
then other work on the machine matters less, and each ratio is of two rounds that were computed one
right after the other.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

from flr.core import bits

ROUNDS = 12  # after the first, which warms up
DIGITS = {"data": {"name": "digits"}, "train": {"model": "mlp"}}
IMAGES = {"augment": "crop-flip"}
WORKLOADS: dict[str, dict[str, Any]] = {
    "digits, mlp, FedAvg": {**DIGITS, "method": "fedavg"},
    "digits, mlp, FLR": {**DIGITS, "method": "flr"},
    "features (1,280), mlp 256, FLR": {
        "method": "flr",
        "train": {"model": {"name": "mlp", "hidden": 256}},
    },
    "images (3 x 32 x 32), cnn 16, FLR": {
        "method": "flr",
        "data": IMAGES,
        "train": {"model": {"name": "cnn", "width": 16, "flat": True}},
    },
    "images (3 x 32 x 32), resnet18 of width 8, FedAvg": {
        "method": "fedavg",
        "data": IMAGES,
        "train": {"model": {"name": "resnet18", "width": 8}, "epochs": 1},
    },
}

CHILD = """
import json, sys, time
import numpy as np
import flr
from flr.data.build import from_arrays

settings, folder = json.loads(sys.argv[1]), sys.argv[2]
rng, kind = np.random.default_rng(0), settings.pop("inputs")
data = None
if kind == "features":
    data = from_arrays(rng.normal(size=(1200, 1280)).astype("float32"), np.arange(1200) % 10)
elif kind == "images":
    data = from_arrays(rng.integers(0, 256, (1000, 32, 32, 3), dtype="uint8"), np.arange(1000) % 10)
began = None

def turn(line):
    global began
    now = time.process_time()
    print(0.0 if began is None else now - began, flush=True)
    sys.stdin.readline()
    began = time.process_time()

flr.run(settings, data=data, out=folder, on_round=turn)
"""


def settings_of(name: str, workload: dict[str, Any]) -> dict[str, Any]:
    """A whole config: twenty noisy sites of which a quarter is asked."""
    shared = {
        "rounds": ROUNDS + 1,
        "workers": 1,
        "noise": {"kind": "symmetric", "clients": 1.0},
        "eval": {"every": 0, "memorization_every": 0},
        "checkpoint_every": ROUNDS + 1,
        "inputs": name.split(" ")[0].rstrip(","),
    }
    return {**shared, **workload}


@contextmanager
def running(settings: dict[str, Any], wanted: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that waits after each round until it is told to go on."""
    said = (bits.ASKED, *bits.SETTINGS, *bits.OTHERS)
    own = {k: v for k, v in os.environ.items() if k not in said}
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", CHILD, json.dumps(settings), str(folder)],
        env={**own, bits.ASKED: wanted},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def round_of(process: subprocess.Popen[str]) -> float:
    """Processor seconds of the round that it computes next."""
    to_it = cast(IO[str], process.stdin)
    to_it.write("\n")
    to_it.flush()
    return said_by(process)


def said_by(process: subprocess.Popen[str]) -> float:
    """Waits for the end of a round."""
    return float(cast(IO[str], process.stdout).readline())


def ratios(settings: dict[str, Any], folder: Path) -> list[float]:
    """Portable over the machine's own, of each pair of rounds; who begins changes."""
    with (
        running(settings, "machine", folder / "machine") as machine,
        running(settings, "portable", folder / "portable") as portable,
    ):
        both = [machine, portable]
        for process in both:
            said_by(process)  # of its first round, no time
        found = []
        for number in range(ROUNDS):
            order = both[:: 1 if number % 2 else -1]
            seconds = {id(process): round_of(process) for process in order}
            found.append(seconds[id(portable)] / seconds[id(machine)])
    return found


def main() -> None:
    """Prints the table, and what the machine's own bits are."""
    import torch

    print(f"own capability: {torch.backends.cpu.get_cpu_capability()}")
    print("| workload | portable / machine | from, to |\n| --- | --- | --- |")
    for name, workload in WORKLOADS.items():
        with tempfile.TemporaryDirectory() as folder:
            found = ratios(settings_of(name, workload), Path(folder))
        middle = statistics.median(found)
        print(f"| {name} | {middle:.2f} | {min(found):.2f}, {max(found):.2f} |", flush=True)


if __name__ == "__main__":
    main()
