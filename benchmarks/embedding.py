"""What an embedding costs besides the network's forward passes.

    python -m benchmarks.embedding FOLDER [--workers 2 | --keep] [--turns]

A round embeds all images. Without `--workers` it is a plain loop of forward passes of the same
network over the same batches: the unit, and once more with our way of getting memory, which makes
half of the difference.
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
    """The bare loop with glibc's memory and with ours, and the embedder with 1 and 2 workers."""
    command = (sys.executable, "-m", "benchmarks.embedding")
    engines = [
        Engine("bare loop", command),
        Engine("bare, freed memory kept", command, ("--keep",)),
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
    parser.add_argument("--keep", action="store_true", help="freed memory, as our engine does")
    options = parser.parse_args()
    workload: dict[str, Any] = protocol.read_workload(options.folder)
    entry = parse_entry("backbone", workload["model"], default="")
    with np.load(options.folder / numbered.IMAGES) as held:
        x = torch.from_numpy(held["x"])
    if options.keep or options.workers is not None:
        keep_freed_memory(for_all_threads=True)  # as `flr run` does
    ends = protocol.RoundEnds(options.turns)
    steps, version = None, VERSION
    if options.workers is None:
        steps, features = bare(entry, x, workload["rounds"], ends)
        version = f"torch {torch.__version__}"
    else:
        features = embed(entry, x, workload["rounds"], options.workers, ends)
    protocol.finish(options.folder, ends, {FEATURES: features.numpy()}, steps, version)


if __name__ == "__main__":
    main()
