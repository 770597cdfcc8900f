"""A site's agent behind its socket: the bits of a site without one, and nothing undeclared."""

from __future__ import annotations

import hashlib
import socket
import threading
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from agents import Agent, agents, ask, short_folder
from direct import DirectGrid, run_config
from flwr.app import Array, Message
from prometheus_client.parser import text_string_to_metric_families
from toys import TINY, bits, settings

import flr
from flr.core.errors import ConfigError, RunError
from flr.flower import ledger, site_cache
from flr.flower.agent import messenger, site_agent
from flr.flower.agent.messenger import AgentError
from flr.flower.agent.site_agent import SiteAgent
from flr.flower.agent.status import Status
from flr.flower.local.processes import free_port
from flr.flower.prometheus import AgentNumbers
from flr.flower.server import serve
from flr.simulation.api import Run

SITES = TINY["partition"]["clients"]


def simulated(folder: Path) -> dict[int, dict[str, Any]]:
    return {k: {"partition-id": k, "state-dir": str(folder / f"site-{k}")} for k in range(SITES)}


def asked_at(made: dict[int, Agent]) -> dict[int, dict[str, Any]]:
    """The node configs of SuperNodes whose sites have these agents."""
    return {k: {"agent": str(agent.path), "partition-id": k} for k, agent in made.items()}


class Keeping(DirectGrid):
    """Keeps the answers as the server gets them, by node."""

    def __init__(self, nodes: Any) -> None:
        super().__init__(nodes)
        self.heard: dict[int, list[Message]] = {node: [] for node in nodes}

    def push_messages(self, messages: Any) -> list[str]:
        held = list(messages)
        numbers = super().push_messages(held)
        for message, number in zip(held, numbers, strict=True):
            self.heard[message.metadata.dst_node_id].append(self.replies[number])
        return numbers


FEATURES = {"train": {"model": "mlp"}, "data": {"backbone": "tiny_backbone:projection"}}
METHODS = ["flr", "fedcorr", "coteaching", "feddyn"]


@pytest.mark.parametrize("method", [*METHODS, "flr+"])
def test_the_bits_are_those_of_one_process(method, tmp_path):
    config = settings(method)
    with agents(simulated(tmp_path)) as made:
        serve(DirectGrid(asked_at(made)), run_config(config, tmp_path / "there"))
    here = flr.run(config, out=tmp_path / "here")
    assert bits(Run(tmp_path / "there")) == bits(here)


def test_on_features_too(tmp_path):
    config = settings("flr", **FEATURES)
    with agents(simulated(tmp_path)) as made:
        serve(DirectGrid(asked_at(made)), run_config(config, tmp_path / "there"))
    assert bits(Run(tmp_path / "there")) == bits(flr.run(config, out=tmp_path / "here"))


def digest(message: Message) -> str:
    """Of all that is in a message, computed as the documentation says."""
    found = hashlib.sha256()
    for name, record in sorted(message.content.items()):
        for key, value in sorted(record.items()):
            data = value.data if isinstance(value, Array) else str(value).encode()
            found.update(f'["{name}.{key}",{len(data)}]'.encode() + data)
    return found.hexdigest()


@pytest.mark.parametrize("private", [False, True])
def test_its_ledger_has_exactly_what_the_server_got(private, tmp_path):
    flower = {"privacy": "client-clipping", "clipping-norm": 0.01} if private else {}
    config = settings("fedavg", train={"model": "mlp", "participation": 1.0})
    with agents(simulated(tmp_path)) as made:
        grid = Keeping(asked_at(made))
        serve(grid, run_config(config, tmp_path / "run", **flower))
    for node, heard in grid.heard.items():
        found = ledger.read(made[node].state_dir)
        assert not found.problems
        assert [line.sha256 for line in found.lines] == [digest(reply) for reply in heard]
        assert sum(bool(line.weights) for line in found.lines) == TINY["rounds"]


def test_an_agent_that_comes_back_changes_no_bit(tmp_path, monkeypatch):
    config = settings("flr", train={"participation": 1.0})
    with agents(simulated(tmp_path)) as made:
        grid = DirectGrid(asked_at(made))
        push = grid.push_messages

        def restart(messages: Any) -> list[str]:
            site_cache.samples.cache_clear()  # a new process has read nothing
            site_cache.worker.cache_clear()
            made[2].stop()
            threading.Timer(0.3, made[2].start).start()  # the messenger is there first
            return push(messages)

        monkeypatch.setattr(grid, "push_messages", restart)
        serve(grid, run_config(config, tmp_path / "there"))
    assert {c["status"] for c in Run(tmp_path / "there").clients} == {"ok"}
    assert bits(Run(tmp_path / "there")) == bits(flr.run(config, out=tmp_path / "here"))


def test_a_site_without_its_agent_is_left_out_by_name(tmp_path, monkeypatch):
    monkeypatch.setattr(messenger, "WAIT", 0.3)
    with agents(simulated(tmp_path)) as made:
        nodes = asked_at(made)
        nodes[1] = {"agent": str(tmp_path / "none.sock"), "site": "site-1"}
        with pytest.raises(RunError, match='"site-1": its agent does not answer'):
            serve(DirectGrid(nodes), run_config(settings("fedavg"), tmp_path / "run", wait=0.3))


def test_what_is_the_agents_is_refused_in_the_node_config(tmp_path):
    with agents(simulated(tmp_path)) as made:
        nodes = asked_at(made)
        nodes[1] |= {"data": "/data", "device": "cpu", "site": "site-1"}
        with pytest.raises(RunError, match='"site-1": its node config names an agent, and data, d'):
            serve(DirectGrid(nodes), run_config(settings("fedavg"), tmp_path / "run", wait=0.3))


def test_a_slip_in_the_key_is_named(tmp_path):
    nodes = simulated(tmp_path)
    nodes[1]["agnet"] = "/run/flr/site.sock"
    with pytest.raises(RunError, match="has 'agnet'; is 'agent' meant"):
        serve(DirectGrid(nodes), run_config(settings("fedavg"), tmp_path / "run", wait=0.3))


def test_an_agent_that_always_ends_is_given_up():
    with short_folder() as folder, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "s"))
        listener.listen()

        def hang_up() -> None:
            for _ in range(messenger.TRIES):
                listener.accept()[0].close()

        threading.Thread(target=hang_up).start()
        header = {"type": "query.hello", "note": {}, "arrays": None}
        with pytest.raises(AgentError, match="ended each time"):
            messenger.ask(folder / "s", header, [])


def test_data_are_read_once_however_often_it_is_asked(tmp_path, monkeypatch):
    read: list[Path] = []
    real = site_cache.read_samples

    def reading(path: Path, *args: Any, **options: Any) -> Any:
        read.append(path)
        return real(path, *args, **options)

    monkeypatch.setattr(site_cache, "read_samples", reading)
    draw = np.random.default_rng(1)
    x, y = draw.random((30, 8), dtype=np.float32), draw.integers(0, 10, 30)
    np.savez(tmp_path / "data.npz", x=x, y=y)
    own = {"site": "ward-7", "data": str(tmp_path / "data.npz"), "state-dir": str(tmp_path / "s")}
    config = settings("flr", train={"model": "mlp"})
    flower = {"classes": ",".join("0123456789"), "min-sites": 1}
    with agents({7: own}) as made:
        node = {7: {"agent": str(made[7].path)}}
        for number in range(2):  # the second roll call comes after tasks
            serve(DirectGrid(node), run_config(config, tmp_path / f"{number}", **flower))
    assert len(read) == 1


def test_an_error_in_it_is_told_in_words_of_ours(tmp_path, monkeypatch, caplog):
    with agents(simulated(tmp_path)) as made:

        def fail(*_: Any) -> Any:
            raise MemoryError("/secret/path")

        monkeypatch.setattr("flr.flower.agent.site_agent.site_app", lambda: fail)
        said = ask(made[0].path)
        monkeypatch.undo()
        assert said == {"site": "site-0", "problem": "its agent failed; its log says why"}
        assert ask(made[0].path)["site"] == "site-0"
    assert "/secret/path" in caplog.text


def test_one_state_dir_and_one_socket_have_one_agent(tmp_path):
    with agents({0: simulated(tmp_path)[0]}) as made:
        agent = made[0]
        other = SiteAgent(agent.own, agent.path.with_name("other"))
        with pytest.raises(ConfigError, match="another one works in"):
            other.serve()
        elsewhere = {**agent.own, "state-dir": str(tmp_path / "elsewhere")}
        with pytest.raises(ConfigError, match="an agent listens at"):
            SiteAgent(elsewhere, agent.path).serve()
        assert ask(agent.path)["site"] == "site-0"
    with socket.socket(socket.AF_UNIX) as killed, agents({0: simulated(tmp_path)[0]}) as made:
        place = made[0].path.with_name("left")
        killed.bind(str(place))  # what a kill leaves behind
        again = Agent({**made[0].own, "state-dir": str(tmp_path / "again")}, place, None, 10**6)
        assert ask(place)["site"] == "site-0"
        again.stop()


def test_what_a_killed_agent_left_half_written_is_cleared_away(tmp_path):
    own = simulated(tmp_path)[0]
    half, other = (Path(own["state-dir"]) / f".{name}.abcd_123" for name in ("agent.json", "mine"))
    half.parent.mkdir()
    for path in (half, other):
        path.write_text("half")
    with agents({0: own}):
        assert not half.exists()
        assert other.exists()


@pytest.mark.parametrize(
    ("own", "words"),
    [
        ({"site": "a"}, "names no data"),
        ({"data": "/d", "site": "../x"}, "site name"),
        ({"dta": 1}, "'data'"),
    ],
)
def test_options_that_cannot_be_used_are_said_at_the_start(own, words, tmp_path):
    with pytest.raises(ConfigError, match=words):
        SiteAgent({**own, "state-dir": str(tmp_path)}, tmp_path / "s")


def test_it_says_what_it_has_done(tmp_path):
    with agents({0: simulated(tmp_path)[0]}) as made:
        ask(made[0].path)
        found = Status.load(made[0].state_dir)
        assert found.running
        assert (found.answered, found.refused) == (1, 0)
        assert "roll call of run 0000000000000000" in found.last
        assert (made[0].state_dir / "agent.json").stat().st_mode & 0o777 == 0o600


def test_its_numbers_say_how_much_and_not_what(tmp_path):
    numbers = AgentNumbers(free_port())
    try:
        with agents(simulated(tmp_path)) as made:
            made[0].serving.numbers = numbers
            grid = Keeping(asked_at(made))
            serve(grid, run_config(settings("flr", train={"model": "mlp"}), tmp_path / "run"))
            left = ledger.read(made[0].state_dir).lines
        text = httpx.get(f"http://127.0.0.1:{numbers.port}/metrics", trust_env=False).text
        with pytest.raises(ConfigError, match=r"to be free for --metrics"):
            AgentNumbers(numbers.port)
    finally:
        numbers.close()
    families = text_string_to_metric_families(text)
    found = {(s.name, *s.labels.values()): s.value for f in families for s in f.samples}
    assert found["flr_agent_answers_total", "ok"] == len(left) == len(grid.heard[0])
    assert ("flr_agent_answers_total", "refused") not in found
    records = [r for m in grid.heard[0] for r in m.content.array_records.values()]
    sent = sum(len(array.data) for record in records for array in record.values())
    assert found["flr_agent_bytes_total", "up"] == sent > 0
    assert found["flr_agent_bytes_total", "down"] > 0
    assert found["flr_agent_seconds_count",] == len(left)
    assert found["flr_agent_at_work",] == 0
    assert not any(word in text for word in ("weights", "site-0", left[0].run))


def test_who_waits_for_an_answer_is_not_taken_for_gone_and_who_has_closed_is():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(20.0)  # as while a message comes in; a look that waited would call it gone
        assert not site_agent._gone(ours)
        theirs.close()
        assert site_agent._gone(ours)
