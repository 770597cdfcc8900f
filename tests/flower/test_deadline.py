"""Rounds end: without a site that hangs, and without an update that moves the model too far."""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from direct import DirectGrid, run_config
from flwr.app import Message
from toys import TINY, settings

from flr.flower import node as nodes
from flr.flower.deadline import LEAST, Deadline
from flr.flower.local.loopback import Loopback
from flr.flower.new_app import write_app
from flr.flower.server import serve
from flr.simulation.api import Run

SITES = TINY["partition"]["clients"]
EVERYONE = {"participation": 1.0}


def test_a_task_may_take_its_time_until_some_rounds_have_shown_how_long_it_takes() -> None:
    own = Deadline(seconds=0, quorum=0.5)
    assert not own.is_over("fit", now=1e6, sent=0, answers=[1.0])
    own.learn("fit", 100.0)
    assert own.patience("fit") == 300
    assert not own.is_over("fit", now=500, sent=0, answers=[10.0, 250.0])  # answers still come
    assert own.is_over("fit", now=551, sent=0, answers=[10.0, 250.0])
    assert not own.is_over("other", now=1e6, sent=0, answers=[1.0])
    for _ in range(5):
        own.learn("fit", 0.1)
    assert own.patience("fit") == LEAST
    assert math.isinf(own.patience("other"))


def test_a_deadline_of_ones_own_counts_from_the_start_and_needs_a_quorum() -> None:
    own = Deadline(seconds=30, quorum=0.6)
    assert not own.is_over("fit", now=29, sent=0, answers=[1.0])
    assert own.is_over("fit", now=30, sent=0, answers=[29.9])
    assert [own.needed(asked, 1) for asked in (1, 2, 5, 10)] == [1, 2, 3, 6]
    assert own.needed(10, 8) == 8
    assert Deadline(30, 0).needed(10, 0) == 1


class Holds(DirectGrid):
    """Keeps back the answers of node 2 to the first round until the third one has begun."""

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        steps = {m.metadata.group_id for m in self.messages if m.metadata.group_id}
        held = {
            m.metadata.message_id
            for m in self.messages
            if m.metadata.dst_node_id == 2 and m.metadata.group_id == "0" and len(steps) < 3
        }
        return super().pull_messages([n for n in message_ids if n not in held])


def test_a_late_answer_is_counted_and_dropped_and_its_site_not_asked_meanwhile(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    grid = Holds({k: {"partition-id": k, "state-dir": str(tmp_path)} for k in range(SITES)})
    config = settings("fedavg", train=EVERYONE)
    serve(grid, run_config(config, tmp_path / "run", deadline=0.5, quorum=0.8))
    run = Run(tmp_path / "run")
    assert [line["dropped"] for line in run.metrics] == [[2], [2], [2], []]
    asked = [m for m in grid.messages if m.metadata.dst_node_id == 2 and m.metadata.group_id]
    assert [m.metadata.group_id for m in asked] == ["0", "3"]
    late = [line.get("late") for line in run.clients if line["client"] == 2]
    assert late[-1] == 1
    assert late[:2] == [None, None]
    assert 'site "site-2" has answered step 0' in caplog.text


@pytest.mark.parametrize("refuse", [0.0, 20.0])
def test_an_update_of_another_size_is_named_and_may_be_refused(
    refuse: float, tmp_path: Path, monkeypatch, caplog
) -> None:
    real = nodes.execute

    def execute(own: Any, run_spec: Any, task: Any, received: Any) -> Any:
        found = real(own, run_spec, task, received)
        if own.site == "site-1":
            for name, sent in found.reply.arrays.items():
                if sent.is_floating_point():
                    sent += 100 * (sent - received[name])
        return found

    monkeypatch.setattr(nodes, "execute", execute)
    ids = {k: {"partition-id": k, "state-dir": str(tmp_path)} for k in range(SITES)}
    config = settings("fedavg", rounds=1, train=EVERYONE)
    serve(DirectGrid(ids), run_config(config, tmp_path / "run", **{"refuse-norm": refuse}))
    found = {line["site"]: line for line in Run(tmp_path / "run").clients}
    usual = sorted(line["update_norm"] for line in found.values())[SITES // 2]
    assert found["site-1"]["update_norm"] > 20 * usual > 0
    assert 'site "site-1": its update is' in caplog.text
    assert found["site-1"]["status"] == ("refused" if refuse else "ok")
    assert ("flower.refuse-norm allows 20" in found["site-1"]["reason"]) == bool(refuse)


def test_norms_of_a_private_run_are_not_written_down(tmp_path: Path) -> None:
    ids = {k: {"partition-id": k, "state-dir": str(tmp_path)} for k in range(SITES)}
    config = settings("fedavg", rounds=1, train={**EVERYONE, "model": "mlp"})
    private = {"privacy": "server-clipping"}
    serve(DirectGrid(ids), run_config(config, tmp_path / "run", **private))
    assert not any("update_norm" in line for line in Run(tmp_path / "run").clients)


def test_a_site_that_is_stopped_costs_a_round_its_deadline(tmp_path: Path) -> None:
    """SIGSTOP of a SuperNode and all it has started: nothing of it answers any more."""
    app, out = write_app(tmp_path / "two-wards"), tmp_path / "run"
    with Loopback(tmp_path / "federation") as federation:
        for number in range(2):
            own = {"partition-id": number, "state-dir": str(tmp_path / f"state-{number}")}
            federation.add_node(f"site-{number}", own)
        federation.wait_for_nodes()

        def stop_one() -> None:
            if (out / "config.toml").exists():  # it has said that it takes part
                os.killpg(federation.nodes["site-1"].pid, signal.SIGSTOP)

        changes = {
            "rounds": 2,
            "method": "fedavg",
            "set": "data.train=180; data.test=60",
            "partition.clients": 2,
            "train.participation": 1.0,
            "flower.out": str(out),
            "flower.wait": 300.0,
            "flower.deadline": 2.0,
        }
        run = federation.run(app, changes)
        assert federation.wait(run, 600, stop_one) == "finished:completed", federation.run_log(run)
        said = federation.run_log(run).read_text()
    # where the other site needs more than the minute of two heartbeats, Flower notices it first
    ends = ('site "site-1" has not answered within', 'site "site-1" is lost')
    assert any(end in said for end in ends)
    lines = Run(out).metrics
    assert [(m["round"], m["participants"]) for m in lines] == [(1, [0]), (2, [0])]
