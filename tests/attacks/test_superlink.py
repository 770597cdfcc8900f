"""One of three sites lies, on a real SuperLink: each run goes on, and has the honest sites' bits.

The sites have agents, because a message is cheap there; it is the app in front of one that lies.

CI tries a few lies; more: `pytest -m attack --hostile-runs 20 tests/attacks/test_superlink.py -s`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import hostile_app
import pytest
from agents import short_folder
from direct import DirectGrid
from flwr.app import Message
from siege import CALM, rounds_of
from tally import Tally
from toys import bits

import flr
from flr.core.errors import RunError
from flr.flower import wire
from flr.flower.local import loopback
from flr.flower.local.agents import Agents
from flr.flower.local.loopback import Loopback
from flr.flower.new_app import write_app
from flr.flower.server import serve
from flr.simulation.api import Run

SITES, LIAR = 3, 1
SAMPLE = 3

CONFIG: dict[str, Any] = {
    "seed": 3,
    "method": "flr",
    "set": "data.train=180; data.test=60",
    "partition.clients": SITES,
    "train.participation": 1.0,
    "train.epochs": 1,
    "flower.min-sites": SITES - 1,
    "flower.wait": 300.0,
}


def app(folder: Path) -> Path:
    """As generated, but for the client."""
    made = write_app(folder / "wards")
    code = "from hostile_app import lying_app\n\napp = lying_app()\n"
    (made / "wards" / "client_app.py").write_text(code)
    return made


def settings_of(made: Path) -> dict[str, Any]:
    """All settings of the app, for a server in this process."""
    from flr.flower.check_app import run_config

    return {**run_config(made), **CONFIG}


def honest_bits(about: str, rounds: int, made: Path, folder: Path) -> str:
    """What the honest sites make of it, without a network: the third is refused, or not there."""
    state = str(folder / "state")
    nodes = {k: {"partition-id": k, "state-dir": state} for k in range(SITES)}
    if about == "query":
        del nodes[LIAR]
    grid = DirectGrid(nodes)
    real = grid.push_messages

    def push(messages: Iterable[Message]) -> list[str]:
        held = list(messages)
        numbers = real(held)
        for number, message in zip(numbers, held, strict=True):
            asked = message.metadata
            if asked.dst_node_id == LIAR and asked.message_type == "train":
                refusal = {"site": f"site-{LIAR}", "problem": "no"}
                grid.replies[number] = Message(wire.write(refusal), reply_to=message)
        return numbers

    grid.push_messages = push  # type: ignore[method-assign]
    serve(grid, {**settings_of(made), "rounds": rounds, "flower.out": str(folder / "run")})
    return bits(Run(folder / "run"))


def what_is_wrong(out: Path, status: str, rounds: int, expected: str) -> str:
    if status != "finished:completed":
        return status
    run = Run(out)
    bad = {c["site"] for c in run.clients if c["status"] != "ok"} - {f"site-{LIAR}"}
    if bad or len(run.metrics) != rounds:
        return f"{len(run.metrics)} rounds, others refused: {bad}"
    return "" if bits(run) == expected else "other bits"


def in_runs(lies: int) -> Iterator[tuple[str, list[int]]]:
    """What each run's liar lies about, and in which way in each round; all ways if lies are many.

    About its results there is another lie in every round; about itself one in a run, as it is asked
    when a run begins.
    """
    about_itself = lies // 3
    yield "train", spread(lies - about_itself)
    for way in spread(about_itself):
        yield "query", [way] * 2


def spread(lies: int) -> list[int]:
    """Numbers of ways to lie, some of which draw an answer at random."""
    return [number * max(1, 2 * hostile_app.WAYS // lies) for number in range(lies)]


def to_the_end(federation: Loopback, made: Path, out: Path, settings: dict[str, Any]) -> str:
    """Starts a run, and goes on with one that Flower has ended, as long as there are new rounds.

    It ends a run whose ServerApp has not got the machine for a minute. What a lie ends would end
    each time, because the same one is told when its round is tried again.
    """
    known = -1
    while True:
        begun = (out / "config.toml").exists()
        asked = {**CONFIG, **settings, "flower.out": str(out), "flower.resume": begun}
        status = federation.wait(federation.run(made, asked), 600 * settings["rounds"])
        if status == "finished:completed" or rounds_of(out) <= known:
            return status
        known = rounds_of(out)


def attack(tmp_path: Path, lies: int, monkeypatch: pytest.MonkeyPatch) -> None:
    source, beside = Path(flr.__file__).parents[1], Path(hostile_app.__file__).parent
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, (source, beside))))
    monkeypatch.setattr(loopback, "_SWITCHES", {**loopback._SWITCHES, **CALM})
    made, told, tally = app(tmp_path), tmp_path / "lies", Tally("lies on a SuperLink")
    with (
        short_folder() as folder,
        Loopback(tmp_path / "federation") as federation,
        Agents(folder) as agents,
    ):
        for number in range(SITES):
            agent = agents.add(f"{number}", {"partition-id": str(number)})
            agent.start()
            beside_it = {"lies": str(told)} if number == LIAR else {}
            own = {"partition-id": number, "agent": str(agent.socket)}
            federation.add_node(f"site-{number}", {**own, **beside_it})
        federation.wait_for_nodes()
        for number, (about, ways) in enumerate(in_runs(lies)):
            told.write_text(" ".join([about, *map(str, ways)]))
            out, rounds = tmp_path / f"{number}", len(ways)
            expected = honest_bits(about, rounds, made, tmp_path / f"honest-{number}")
            # a slow start may take longer than others wait: all who are honest have to be there
            needed = {"flower.min-sites": SITES if about == "train" else SITES - 1}
            try:
                status = to_the_end(federation, made, out, {**needed, "rounds": rounds})
                problem = what_is_wrong(out, status, rounds, expected)
            except RunError as error:
                problem = str(error)
            for way in sorted(set(ways)):
                tally.lose(f"lie {way} about {about}: {problem}") if problem else tally.survived(
                    about
                )
            tally.say(f"lies {ways} about {about}: {problem or 'the honest bits'}")
    tally.finish()


def test_a_sample_of_lies_changes_nothing(tmp_path, monkeypatch):
    attack(tmp_path, SAMPLE, monkeypatch)


@pytest.mark.attack
def test_no_lie_changes_anything(tmp_path, monkeypatch, request):
    attack(tmp_path, request.config.getoption("--hostile-runs"), monkeypatch)
