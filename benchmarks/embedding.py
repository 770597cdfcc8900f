"""What an embedding costs besides the network's forward passes.

    python -m benchmarks.embedding FOLDER [--workers 2] [--turns]

A round embeds all images. Without `--workers` it is the unit: a plain loop of forward passes of
the same network over the same batches.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks import numbered, protocol
from benchmarks.compare import PreparedEngine
from benchmarks.engines import Engine
from benchmarks.flr_engine import VERSION
from benchmarks.prepare import FEATURES, Prepared
from benchmarks.protocol import Turn
from flr.config.entry import ConfigEntry, parse_entry
from flr.engine.memory_allocator import keep_freed_memory
from flr.models.embedding import BATCH, Embedder


def compared(prepared: Prepared) -> list[PreparedEngine]:
    """The bare loop, and ours with one worker and with two."""
    command = (sys.executable, "-m", "benchmarks.embedding")
    engines = [
        Engine("bare loop", command),
        Engine("flr, 1 worker", command, ("--workers", "1")),
        Engine("flr, 2 workers", command, ("--workers", "2")),
    ]
    return [PreparedEngine(engine, prepared) for engine in engines]


@torch.no_grad()
def bare(entry: ConfigEntry, x: Tensor, rounds: int, turn: Turn) -> tuple[int, Tensor]:
    """How many batches there were, and the last round's features."""
    torch.set_num_threads(1)
    network = entry.build().load()
    steps = 0
    for _ in range(rounds):
        found = []
        for batch in x.split(BATCH):
            found.append(network(batch))
            steps += 1
        features = torch.cat(found)
        turn()
    return steps, features.to(torch.float16)


def embed(entry: ConfigEntry, x: Tensor, rounds: int, workers: int, turn: Turn) -> Tensor:
    """The last round's features; each round has an empty cache, and loads the network."""
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(prefix="flr-bench-") as cache:
            with numbered.cache_in(Path(cache)):
                features = Embedder(entry, workers)(x)
            turn()
    return features.values[:, 0]


def main() -> None:
    """Reads, embeds and prints."""
    parser = protocol.parser()
    parser.add_argument("--workers", type=int)
    options = parser.parse_args()
    workload: dict[str, Any] = protocol.read_workload(options.folder)
    entry = parse_entry("backbone", workload["model"], default="")
    with np.load(options.folder / numbered.IMAGES) as held:
        x = torch.from_numpy(held["x"])
    ends = protocol.RoundEnds(options.turns)
    steps, version = None, VERSION
    if options.workers is None:
        steps, features = bare(entry, x, workload["rounds"], ends)
        version = f"torch {torch.__version__}"
    else:
        keep_freed_memory()  # as `flr run` does
        features = embed(entry, x, workload["rounds"], options.workers, ends)
    protocol.finish(options.folder, ends, {FEATURES: features.numpy()}, steps, version)


if __name__ == "__main__":
    main()
