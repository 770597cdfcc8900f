"""Kills SuperNodes and the SuperLink of a real federation at random moments, and looks at the end.

    python -m benchmarks.studies.flower_kills --runs 5 --kills 3 --seed 1

Each run is FLR on digits, a SuperLink and three SuperNodes on this machine. A kill is SIGKILL, to a
SuperNode or to the SuperLink with its ServerApp. A node is started again, and its tables must be
as they were; a SuperLink is started again on its database, and the run resumed. In the end the
model must have the bits of a run in process, undisturbed, in which the same sites took part.
Takes some minutes for each run; nothing of it depends on the clock but the moments of the kills.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest import mock

import flr
from flr.engine.local import LocalTransport
from flr.flower.local.loopback import Loopback
from flr.flower.new_app import write_app
from flr.simulation.api import Run

Settings = dict[str, str | int | float | bool]

SITES, ROUNDS = 3, 8
CONFIG: dict[str, Any] = {
    "seed": 3,
    "rounds": ROUNDS,
    "method": "flr",
    "workers": 1,
    "data": {"name": "digits"},
    "partition": {"kind": "iid", "clients": SITES},
    "noise": {"kind": "symmetric", "clients": 1.0, "floor": 0.3},
    "train": {"model": "mlp", "participation": 1.0, "epochs": 1},
}
RUN_CONFIG: Settings = {
    "seed": 3,
    "rounds": ROUNDS,
    "set": "noise.clients=1.0; noise.floor=0.3",
    "partition.clients": SITES,
    "train.participation": 1.0,
    "train.epochs": 1,
    "flower.wait": 180.0,
}


class DisturbedRun:
    """One run, with somebody who kills."""

    def __init__(self, folder: Path, rng: random.Random) -> None:
        self.folder, self.rng, self.out = folder, rng, folder / "run"
        self.began = time.monotonic()
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        line = f"  {time.monotonic() - self.began:5.0f} s  {text}"
        print(line, flush=True)
        self.lines.append(line)

    def carry_out(self, kills: int) -> bool:
        """Whether all was as it should be."""
        app = write_app(self.folder / "app" / "three-wards")
        with Loopback(self.folder / "federation") as federation:
            for number in range(SITES):
                settings: Settings = {"partition-id": number, "state-dir": str(self.state(number))}
                federation.add_node(f"ward-{number}", settings)
            federation.wait_for_nodes()
            number = federation.run(app, {**RUN_CONFIG, "flower.out": str(self.out)})
            self.until_round(1)
            fine = True
            for _ in range(kills):
                time.sleep(self.rng.uniform(2, 20))
                if self.rounds_done() == ROUNDS:
                    self.say("the run had ended before the next kill")
                    break
                target = self.rng.choice([*range(SITES), "superlink"])
                if target == "superlink":
                    number = self.kill_superlink(federation, app)
                else:
                    fine &= self.kill_node(federation, int(target))
            status = federation.wait(number, timeout=1200)
            self.say(f"the run is {status}")
        return fine and status == "finished:completed" and self.same_bits()

    def kill_node(self, federation: Loopback, number: int) -> bool:
        """Also compares what lay on the node's disk before the kill and after its return."""
        node, working = federation.nodes[f"ward-{number}"], self.rounds_done() + 1
        node.kill()
        before = self.tables(number)
        accepted = self.accepted(number)
        node.restart()
        after = self.tables(number)
        same = all(after.get(name) == content for name, content in before.items())
        there = accepted is None or f"{accepted}.safetensors" in after
        self.say(
            f"killed the SuperNode of site-{number} in round {working}; it is back, with version "
            f"{accepted} of its tables {'as before' if same and there else 'LOST OR CHANGED'}"
        )
        return same and there

    def kill_superlink(self, federation: Loopback, app: Path) -> int:
        working = self.rounds_done() + 1
        federation.kill_superlink()
        self.say(f"killed the SuperLink and its ServerApp in round {working}")
        federation.start()
        resume: Settings = {
            "flower.resume": True,
            "flower.out": str(self.out),
            "flower.wait": 180.0,
        }
        number = federation.run(app, resume)
        self.say("started it again on its database; the run is resumed")
        return number

    def same_bits(self) -> bool:
        """Repeats the run here with the same participants."""
        took_part = {line["round"] - 1: line["participants"] for line in Run(self.out).metrics}
        missed = {step + 1: sites for step, sites in took_part.items() if len(sites) < SITES}
        self.say(f"rounds without all sites: {missed or 'none'}")

        def vanishes(_: LocalTransport, client: int, step: int) -> bool:
            return client not in took_part[step]

        with mock.patch.object(LocalTransport, "vanishes", vanishes):
            here = flr.run(CONFIG, out=self.folder / "here")
        same = model_hash(self.out) == model_hash(here.folder)
        self.say(f"model {model_hash(self.out)[:12]}: {'the same bits' if same else 'OTHER BITS'}")
        return same

    def state(self, number: int) -> Path:
        return self.folder / f"state-{number}"

    def tables(self, number: int) -> dict[str, bytes]:
        files = self.state(number).glob("*/*/*/*.safetensors")
        return {path.name: path.read_bytes() for path in files}

    def accepted(self, number: int) -> int | None:
        """The newest version of a site's state that the server has accepted in a checkpoint."""
        points = sorted((self.out / "checkpoint").glob("*.json"), key=lambda p: int(p.stem))
        return json.loads(points[-1].read_text())["versions"].get(str(number)) if points else None

    def rounds_done(self) -> int:
        path = self.out / "metrics.jsonl"
        return path.read_text().count("\n") if path.exists() else 0

    def until_round(self, number: int) -> None:
        end = time.monotonic() + 600
        while self.rounds_done() < number and time.monotonic() < end:
            time.sleep(0.2)


def model_hash(folder: Path) -> str:
    return hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    good = 0
    for number in range(asked.runs):
        print(f"run {number + 1} of {asked.runs}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            run = DisturbedRun(Path(folder), random.Random(asked.seed * 1000 + number))  # noqa: S311
            good += run.carry_out(asked.kills)
    print(f"{good} of {asked.runs} runs were as they should be")
    sys.exit(good != asked.runs)


if __name__ == "__main__":
    main()
