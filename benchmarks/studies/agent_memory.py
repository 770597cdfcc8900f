"""How much memory a site's agent takes at many pictures, turned into features by a backbone.

    python -m benchmarks.studies.agent_memory --pictures 20000 --side 224

Makes that many JPEG files of noise in two classes, starts an agent on them, and trains FLR for two
rounds on features of efficientnet-lite0, without a SuperLink: messages go from this process to the
agent's socket. Prints the most memory that the agent has held, as the kernel counts it.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from PIL import Image
from torch import Tensor

from flr.config import parse
from flr.core.arrays import canonical_json
from flr.data.dataset import Normalization, TaskSpec
from flr.flower import wire
from flr.flower.agent import messenger, request
from flr.flower.local.agents import Agents
from flr.flower.run_spec import RunSpec, task_to_note
from flr.models.networks import weights_of
from flr.simulation.build import first_networks

CLASSES = ("cat", "dog")
FEATURES = 1280


def make_pictures(folder: Path, count: int, side: int) -> None:
    """Coarse noise, so that a file is small."""
    draw = np.random.default_rng(0)
    for name in CLASSES:
        (folder / name).mkdir(parents=True)
    for number in range(count):
        coarse = Image.fromarray(draw.integers(0, 256, (8, 8, 3), dtype=np.uint8))
        path = folder / CLASSES[number % 2] / f"{number}.jpg"
        coarse.resize((side, side)).save(path, quality=80)


def main() -> None:
    """Prints one line a message, and the memory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pictures", type=int, default=20_000)
    parser.add_argument("--side", type=int, default=224)
    asked = parser.parse_args()
    config = parse(
        {
            "rounds": 2,
            "method": "flr",
            "data": {"name": "digits", "backbone": "efficientnet-lite0"},
            "train": {"model": "linear", "epochs": 1},
        }
    )
    task = TaskSpec(CLASSES, (FEATURES,), (FEATURES,), Normalization((0.0,), (1.0,)), "none")
    spec = RunSpec.of("0" * 16, config, CLASSES)
    weights = weights_of(first_networks(config, task))
    with tempfile.TemporaryDirectory(prefix="flr-") as place, Agents(Path(place) / "a") as agents:
        pictures = Path(place) / "pictures"
        make_pictures(pictures, asked.pictures, asked.side)
        agent = agents.add("0", {"site": "ward-7", "data": str(pictures)})
        agent.start()
        order: dict[str, Any] = {"task": "fit", "client": 0, "rounds": 2, "attempt": 1}
        note = {**spec.to_note(), "subject": task_to_note(task)}
        say(agent.socket, agent.pid, "query.hello", spec.to_note(), None)
        for step in range(2):
            now = {"step": step, "round": step, "keep": list(range(step))}
            now["version"] = step - 1 if step else None
            say(agent.socket, agent.pid, "train", {**note, "order": {**order, **now}}, weights)


def say(
    path: Path, pid: int, kind: str, note: dict[str, Any], weights: dict[str, Tensor] | None
) -> None:
    """One message to the agent, and what it cost there."""
    began = time.monotonic()
    process = psutil.Process(pid)
    before = process.cpu_times()
    header, parts = request.answer_of(request.message_of(wire.write(note, weights), kind))
    answer, _ = messenger.ask(path, {"type": kind, **header}, parts)
    after = process.cpu_times()
    used = after.user + after.system - before.user - before.system
    status = Path(f"/proc/{pid}/status").read_text()
    (most,) = (line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))
    shown = canonical_json(answer["note"])[:200]
    print(f"{kind}: {time.monotonic() - began:.0f} s, {used:.1f} s of CPU; ", end="")
    print(f"at most {int(most) / 1e6:.2f} GB so far; {shown}", flush=True)


if __name__ == "__main__":
    main()
