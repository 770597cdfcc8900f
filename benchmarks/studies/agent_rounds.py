"""What a round costs on a real federation of this machine, with a site's agent and without.

    python -m benchmarks.studies.agent_rounds --rounds 10

FLR on digits with three sites: in process, on a SuperLink with three SuperNodes, with three agents
besides, with the waiting room and the launchers of `flr flower node` too, and all of that as a
deployment has it: with TLS, keys, and nginx at the front. Seconds of a round are the median after
the second, from the first line of its metrics to the next. CPU seconds are what the processes of a
site have used between the second and the last round, as the kernel counts them: that of the
SuperNode and all it starts, and that of the agent. They depend less on what else the machine does
than seconds do, yet not little: two threads of one core slow each other down. So a process that
only imports what Flower starts for every message is measured besides.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

import psutil

import flr
from benchmarks.studies.common import markdown_table
from flr.config import parse
from flr.core.arrays import canonical_json
from flr.flower.local.agents import AgentProcess, Agents
from flr.flower.local.loopback import Loopback
from flr.flower.new_app import write_app
from flr.flower.run_spec import RunSpec
from flr.report import jsonl, recorder

SITES = 3
CONFIG: dict[str, Any] = {
    "seed": 3,
    "method": "flr",
    "workers": 1,
    "data": {"name": "digits"},
    "partition": {"kind": "iid", "clients": SITES},
    "noise": {"kind": "symmetric", "clients": 1.0, "floor": 0.3},
    "train": {"model": "mlp", "participation": 1.0, "epochs": 1},
}
RUN_CONFIG: dict[str, str | int | float | bool] = {
    "seed": 3,
    "set": "noise.clients=1.0; noise.floor=0.3",
    "partition.clients": SITES,
    "train.participation": 1.0,
    "train.epochs": 1,
    "flower.wait": 300.0,
}
EMPTY = "import flwr.supernode.cli, flwr.supernode.runtime.run_clientapp"
MESSENGER = """
import json, sys, time
import flwr.supernode.cli, flwr.supernode.runtime.run_clientapp
from flwr.app import ConfigRecord, Context, Message, Metadata, RecordDict
note = RecordDict({"note": ConfigRecord({"schema": 1, "json": sys.stdin.read()})})
about = Metadata(1, "", 1, 1, "", "", time.time(), 60.0, sys.argv[2])
asked = Message(content=note, metadata=about)
context = Context(1, 1, {"agent": sys.argv[1]}, RecordDict(), {})
before = time.process_time()
from flr.flower.apps import client_app
reply = client_app()(asked, context)
used = time.process_time() - before
assert "problem" not in json.loads(reply.content["note"]["json"]), reply.content
print(used, "torch" in sys.modules)
"""


class Kind(TypedDict, total=False):
    """What a federation of this machine has beside Flower's programs."""

    quick: bool
    secure: bool
    front_door: bool


@dataclass
class Watch:
    """Hears of rounds and reads the clock of all processes at each."""

    used: Callable[[], dict[str, float]]
    when: list[float] = field(default_factory=list)
    cpu: list[dict[str, float]] = field(default_factory=list)

    def round_done(self) -> None:
        self.when.append(time.monotonic())
        self.cpu.append(self.used())

    def seconds(self) -> float:
        """Of a round, the median after the second."""
        pairs = zip(self.when[1:], self.when[2:], strict=False)
        return statistics.median(after - before for before, after in pairs)

    def per_round(self, name: str) -> float:
        """CPU seconds, after the second round."""
        return (self.cpu[-1][name] - self.cpu[1][name]) / (len(self.cpu) - 2)


def in_process(rounds: int, folder: Path) -> Watch:
    """The engine of `flr run`, one worker."""

    def used() -> dict[str, float]:
        found = resource.getrusage(resource.RUSAGE_SELF)
        return {"all": found.ru_utime + found.ru_stime}

    watch = Watch(used)
    flr.run({**CONFIG, "rounds": rounds}, out=folder, on_round=lambda _: watch.round_done())
    return watch


CASES = {
    "Flower": (False, Kind()),
    "Flower, agents": (True, Kind()),
    "Flower, agents, quick": (True, Kind(quick=True)),
    "the same, as printed": (True, Kind(quick=True, secure=True, front_door=True)),
}


def on_flower(rounds: int, folder: Path, with_agents: bool, kind: Kind) -> Watch:
    """Three SuperNodes; with agents these train."""
    app, out = write_app(folder / "three-wards"), folder / "run"
    with Loopback(folder / "federation", **kind) as federation, Agents(folder / "a") as agents:
        made: list[AgentProcess] = []
        for number in range(SITES):
            own: dict[str, str | int | float | bool] = {"partition-id": number}
            if with_agents:
                agent = agents.add(f"{number}", {"partition-id": str(number)})
                agent.start()
                made.append(agent)
                own["agent"] = str(agent.socket)
            else:
                own["state-dir"] = str(folder / f"state-{number}")
            federation.add_node(f"ward-{number}", own)
        federation.wait_for_nodes()

        def used() -> dict[str, float]:
            nodes = sum(cpu_of(node.pid) for node in federation.nodes.values())
            return {"nodes": nodes, "agents": sum(cpu_of(agent.pid) for agent in made)}

        watch = Watch(used)

        def look() -> None:
            if len(jsonl.read(out / recorder.METRICS)) > len(watch.when):
                watch.round_done()

        changes = {**RUN_CONFIG, "rounds": rounds, "flower.out": str(out)}
        number = federation.run(app, changes)
        status = federation.wait(number, 3600, look)
        if made:
            say_messenger(made[0].socket)
        if status != "finished:completed":
            raise SystemExit(federation.run_log(number).read_text())
    return watch


def say_messenger(path: Path) -> None:
    """CPU seconds of a roll call at the messenger, Flower's part of the process left out."""
    config = parse({**CONFIG, "rounds": 2})
    note = canonical_json(RunSpec.of("0" * 16, config, ()).to_note())
    command = [sys.executable, "-c", MESSENGER, str(path), "query.hello"]
    for _ in range(3):
        done = subprocess.run(  # noqa: S603
            command, input=note, capture_output=True, text=True, check=True
        )
        used, torch = done.stdout.split()
        print(f"flr in the messenger: {float(used):.3f} s of CPU; torch imported: {torch}")


def cpu_of(pid: int) -> float:
    """Of a process and all that it has started, those that have ended included."""
    top = psutil.Process(pid)
    found = 0.0
    for process in (top, *top.children(recursive=True)):
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        found += times.user + times.system + times.children_user + times.children_system
    return float(found)


def import_alone() -> float:
    """CPU seconds of what Flower starts for every message, before it does anything."""
    before = os.times()
    for _ in range(3):
        subprocess.run([sys.executable, "-c", EMPTY], check=True)  # noqa: S603
    after = os.times()
    total = after.children_user + after.children_system
    return (total - before.children_user - before.children_system) / 3


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--only", nargs="*", choices=CASES, default=list(CASES))
    own = parser.parse_args()
    rounds = own.rounds
    rows = []
    with tempfile.TemporaryDirectory(prefix="flr-") as place:
        folder = Path(place)
        here = in_process(rounds, folder / "here")
        training = here.per_round("all") / SITES  # with what the server does
        rows.append(["in process", f"{here.seconds():.2f}", "", "", f"{training:.2f}"])
        for number, name in enumerate(own.only):
            place_of_it = folder / str(number)
            place_of_it.mkdir()
            watch = on_flower(rounds, place_of_it, *CASES[name])
            node, agent = (watch.per_round(who) / SITES for who in ("nodes", "agents"))
            figures = [watch.seconds(), watch.seconds() - here.seconds(), node, agent]
            rows.append([name, *(f"{figure:.2f}" for figure in figures)])
            print(f"an empty process of Flower: {import_alone():.2f} s of CPU", flush=True)
            print(f"load of the machine: {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores")
    head = ["", "s a round", "over in process", "CPU s, SuperNode", "CPU s, who trains"]
    print(markdown_table(head, rows))


if __name__ == "__main__":
    main()
