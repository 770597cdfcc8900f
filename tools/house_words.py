"""Lists modules, classes and functions whose name is from before the house was put in order.

    python tools/house_words.py      # prints each with its file; exit code 1 if there is any

The left column is that of the words we agreed on: whoever comes from federated learning should find
the word on the right, so the one on the left must not come back.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src" / "flr"

MODULES = {  # relative to src/flr: what it was -> what it is
    "client/desk": "client/worker", "engine/mail": "engine/ipc", "engine/workers": "engine/pool",
    "engine/run": "engine/federation", "client/memory": "methods/shared/soft_labels",
    "client/tables": "methods/shared/prediction_tables", "inside": "methods/shared/wrapper",
    "session": "simulation/api", "simulate": "simulation/run", "assemble": "simulation/build",
    "report/diary": "report/recorder", "probes": "core/observers", "report/lines": "report/jsonl",
    "report/words": "report/formatting", "audit/words": "audit/explanations",
    "flower/roll": "flower/handshake", "flower/charter": "flower/run_spec",
    "flower/members": "flower/membership", "flower/chronicle": "flower/report",
    "flower/subject": "flower/agreement", "flower/tryout": "flower/local/demo",
    "flower/guard": "flower/local/reaper", "audit/opinions": "audit/predictions",
    "audit/imagined": "audit/uncertainty", "audit/case": "audit/site_audit",
    "audit/yardstick": "audit/scores", "audit/simulated": "audit/run_clients",
    "reproduce/looks": "paper/analyses", "reproduce/shows": "paper/outputs",
    "reproduce/grids": "report/table", "reproduce/cells": "paper/results",
    "bench/turns": "benchmarks/interleave", "bench/bare": "benchmarks/reference",
    "bench/ours": "benchmarks/flr_engine", "config/choice": "config/entry",
    "config/problems": "config/errors", "config/locate": "config/toml_lines",
    "data/places": "data/paths", "data/lazy": "data/on_disk",
    "client/copies": "methods/shared/network_copies", "aggregate/parts": "aggregate/common",
    "client/saved": "models/model_file",
}  # fmt: skip

ANYWHERE = {
    "desk", "mail", "inside", "session", "simulate", "assemble", "diary", "probes", "lines",
    "words", "roll", "charter", "members", "chronicle", "subject", "tryout", "guard",
    "opinions", "imagined", "case", "yardstick", "simulated", "looks", "shows", "grids",
    "cells", "turns", "bare", "ours", "choice", "problems", "locate", "places", "lazy",
    "copies", "parts", "saved",
}  # fmt: skip

NAMES = {
    "Desk": "ClientWorker", "Blueprint": "WorkerSpec", "Order": "ClientTask", "Look": "PredictJob",
    "Answer": "ClientResult", "do": "execute", "Slot": "SharedBuffer", "sealed": "encode",
    "opened": "decode", "play": "_rounds", "perform": "step", "Remembered": "BatchTargets",
    "FirstLooks": "FrozenPredictions", "Around": "Wrapper", "Material": "TrainingData",
    "Subject": "TaskSpec", "Parts": "Ragged", "Diary": "Recorder", "Probe": "Observer",
    "Roll": "Handshake", "Charter": "RunSpec", "Members": "Membership", "Errand": "SiteTask",
    "Holdings": "ServerData", "Node": "SiteConfig or SuperNodeProcess", "Guard": "Reaper",
    "Imagined": "Bootstrap", "Case": "SiteAudit", "Workshop": "Runner", "Grid": "Table",
    "Player": "EngineProcess", "Contestant": "EngineThread", "Choice": "ConfigEntry",
    "World": "NoiseContext", "Struck": "Selected", "Oracle": "Truth",
}  # fmt: skip

BRITISH = ("isation", "ptimiser", "ormalise", "egularise", "ummarise")


def found() -> Iterator[str]:
    """Everything that has an old name, with the new one."""
    for path in sorted(SOURCE.rglob("*.py")):
        module = path.relative_to(SOURCE).with_suffix("").as_posix()
        if module in MODULES:
            yield f"{module}: is called {MODULES[module]} now"
        elif path.stem in ANYWHERE:
            yield f"{module}: {path.stem} is a word that nobody guesses"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ClassDef | ast.FunctionDef):
                continue
            if node.name in NAMES:
                yield f"{module}:{node.lineno}: {node.name} is called {NAMES[node.name]} now"
            if any(part in node.name for part in BRITISH):
                yield f"{module}:{node.lineno}: {node.name} is spelled American in code"


def main() -> None:
    lines = list(found())
    print("\n".join(lines) or "no name from the left column")
    sys.exit(bool(lines))


if __name__ == "__main__":
    main()
