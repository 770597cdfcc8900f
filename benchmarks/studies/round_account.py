"""Where the seconds of a round go, on a real federation of this machine with agents at its sites.

    python -m benchmarks.studies.round_account --rounds 8 --quick

FLR on digits with three sites. What is done when is heard from the SuperNodes' logs, which are
looked at a hundred times a second, and from the two halves of the app, which write down times. The
parts of a round add up to it, as means over sites and over all rounds after the second.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

from benchmarks.studies.agent_rounds import RUN_CONFIG, SITES
from benchmarks.studies.common import markdown_table
from flr.flower.local.agents import Agents
from flr.flower.local.loopback import Loopback
from flr.flower.new_app import write_app

CLIENT = """
import json, time
from flr.flower.apps import client_app
from flr.flower.agent import messenger

real = messenger.hand_over

def hand_over(message, context):
    began = time.time()
    reply = real(message, context)
    if message.metadata.message_type == "train":
        with open(context.node_config["trace"], "a") as file:
            file.write(json.dumps([began, time.time()]) + "\\n")
    return reply

messenger.hand_over = hand_over
app = client_app()
"""
SERVER = """
import json, time
from flr.flower.apps import server_app

class Timed:
    def __init__(self, inner):
        self.inner = inner
    def __getattr__(self, name):
        return getattr(self.inner, name)
    def ask(self, *given):
        began = time.time()
        found = self.inner.ask(*given)
        with open(TRACE, "a") as file:
            file.write(json.dumps([began, time.time()]) + "\\n")
        return found

app = server_app(mods=[Timed])
"""
WORDS = ("Receiving: train", "Received successfully", "Sending: train", "Sent successfully")
PARTS = (
    "until the SuperNode has the task",
    "it fetches the arrays",
    "until the app has the message",
    "the agent works",
    "until the SuperNode has the answer",
    "it hands the answer over",
    "until the server has read all answers",
    "the server's own work",
)


@contextmanager
def listening(logs: list[Path]) -> Iterator[list[list[tuple[float, str]]]]:
    """What SuperNodes say, by site: when, and which of the words."""
    heard: list[list[tuple[float, str]]] = [[] for _ in logs]
    over = threading.Event()

    def listen() -> None:
        files = [log.open() for log in logs]
        while not over.wait(0.01):
            for site, file in enumerate(files):
                for line in file.readlines():
                    found = [word for word in WORDS if word in line]
                    heard[site] += [(time.time(), word) for word in found]

    thread = threading.Thread(target=listen)
    thread.start()
    try:
        yield heard
    finally:
        over.set()
        thread.join()


def first(times: list[float], after: float) -> float:
    """The first of them that is not before."""
    return min((when for when in times if when >= after), default=after)


def account(
    asks: list[tuple[float, float]],
    heard: list[list[tuple[float, str]]],
    traces: list[list[tuple[float, float]]],
) -> list[list[float]]:
    """Seconds of each part, for each round after the second and each site."""
    rows = []
    for (asked, got), (again, _) in pairwise(asks[2:]):
        for said, trace in zip(heard, traces, strict=True):
            times = [asked]
            for word in WORDS[:2]:
                times.append(first([when for when, what in said if what == word], times[-1]))
            began, done = next(pair for pair in trace if asked <= pair[0] <= got)
            times += [max(began, times[-1]), done]
            for word in WORDS[2:]:
                times.append(first([when for when, what in said if what == word], times[-1]))
            times += [got, again]
            rows.append([after - before for before, after in pairwise(times)])
    return rows


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--quick", action="store_true", help="waiting room and launchers")
    own = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="flr-") as place:
        folder = Path(place)
        app, server = write_app(folder / "three-wards"), folder / "server.trace"
        (app / "three_wards" / "client_app.py").write_text(CLIENT)
        code = SERVER.replace("TRACE", repr(str(server)))
        (app / "three_wards" / "server_app.py").write_text(code)
        traces = [folder / f"{number}.trace" for number in range(SITES)]
        with (
            Loopback(folder / "federation", quick=own.quick) as federation,
            Agents(folder / "a") as agents,
        ):
            for number, trace in enumerate(traces):
                agent = agents.add(f"{number}", {"partition-id": str(number)})
                agent.start()
                settings = {"agent": str(agent.socket), "trace": str(trace)}
                federation.add_node(f"ward-{number}", {"partition-id": number, **settings})
            federation.wait_for_nodes()
            with listening([node.log for node in federation.nodes.values()]) as heard:
                changes = {**RUN_CONFIG, "rounds": own.rounds, "flower.out": str(folder / "run")}
                number = federation.run(app, changes)
                if federation.wait(number, 3600) != "finished:completed":
                    raise SystemExit(federation.run_log(number).read_text())
        read = [
            [json.loads(line) for line in t.read_text().splitlines()] for t in [server, *traces]
        ]
    rows = account(read[0], heard, read[1:])
    means = [statistics.mean(part) for part in zip(*rows, strict=True)]
    table = [[name, f"{seconds:.2f}"] for name, seconds in zip(PARTS, means, strict=True)]
    print(f"load of the machine: {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores")
    print(markdown_table(["", "s"], [*table, ["a round", f"{sum(means):.2f}"]]))


if __name__ == "__main__":
    main()
