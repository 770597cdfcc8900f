"""What the adapters share: which workloads they train."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from benchmarks import protocol

WORKLOADS = ("main", "tiny")  # those with the CNN: tried, sites of one size, no BatchNorm


def start(engine: str, variable: str) -> tuple[Path, dict[str, Any], protocol.RoundEnds]:
    """The folder, its workload, and what is to be called at the end of each round."""
    options = protocol.parser().parse_args()
    workload = protocol.read_workload(options.folder)
    if workload["name"] not in WORKLOADS:
        sys.exit(
            f"Expected a workload of {', '.join(WORKLOADS)}; {workload['name']} came, which "
            f"{engine}'s adapter does not train. Unset {variable} for it."
        )
    return options.folder.resolve(), workload, protocol.RoundEnds(options.turns)
