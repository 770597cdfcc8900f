"""`flr site`: what the people at a site see."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from agents import Agent, agents, ask
from direct import train_on_flower
from toys import settings

from flr.config import parse
from flr.config import policy as policies
from flr.core import registry
from flr.flower import ledger

CLEAN = {"scenario": {"benchmark": 10}}  # which some methods need


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    train_on_flower(settings("fedcorr"), folder / "run", folder / "state", 6)
    return folder / "state"


def test_the_ledger_fits_a_terminal_and_says_all(state, cli):
    shown = cli("site", "ledger", state)
    assert shown.code == 0
    lines = ledger.read(state).lines
    rows = shown.out.split("\n\n")[0].splitlines() + shown.out.splitlines()
    assert all(len(row) <= 80 for row in rows if " 2026" in row or "───" in row)
    for line in lines:
        assert line.sha256[:8] in shown.out
    assert "fedcorr.lid: mean LID of its predictions (one number, float64)" in shown.out
    assert f"{len(lines)} replies" in shown.out
    assert lines[-1].digest in shown.out


def test_a_changed_line_ends_with_an_error(state, cli, tmp_path):
    for name in (ledger.NAME, ledger.TIP):
        (tmp_path / name).write_bytes((state / name).read_bytes())
    path = tmp_path / ledger.NAME
    path.write_text(path.read_text().replace('"round": 2', '"round": 1', 1))
    shown = cli("site", "ledger", tmp_path)
    assert shown.code == 4
    assert "was changed: it is not what its digest vouches for" in shown.message
    assert "roll call" in shown.out  # it is shown all the same


def test_a_folder_without_one_is_named(cli, tmp_path):
    shown = cli("site", "ledger", tmp_path)
    assert shown.code == 4
    assert "it has no ledger.jsonl" in shown.message


def test_an_example_policy_is_fine_and_sends_weights_only(cli, tmp_path):
    made = cli("site", "policy", tmp_path)
    assert made.code == 0
    path = tmp_path / policies.NAME
    assert str(path) in made.out
    policy = policies.load(path)
    assert policy == policies.load(path)
    assert all(len(line) <= 100 for line in path.read_text().splitlines())
    shown = cli("site", "policy", tmp_path)
    assert shown.code == 0
    assert "arrays: weights\n" in shown.out
    assert "backbones: all\n" in shown.out
    assert "code: none\n" in shown.out
    for name, entry in registry.entries("method").items():
        quiet = not entry.factory(**entry.fixed).traits.sends
        agreed = not list(
            policies.objections(policy, parse({"method": name, "rounds": 100} | CLEAN))
        )
        assert agreed == (quiet and name != "fedcorr"), name


def test_a_broken_policy_is_named(cli, tmp_path):
    (tmp_path / policies.NAME).write_text("rounds = 0")
    shown = cli("site", "policy", tmp_path)
    assert shown.code == 3
    assert "line 1: rounds = 0 should be" in shown.message


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    """One with data of its own, which has been asked once."""
    draw = np.random.default_rng(1)
    y = np.arange(60) % 3
    x = (draw.normal(size=(60, 8)) + 4 * np.eye(3, 8)[y]).astype(np.float32)
    np.savez(tmp_path / "scans.npz", x=x, y=y)
    own = {"site": "ward-7", "data": str(tmp_path / "scans.npz")}
    with agents({0: {**own, "state-dir": str(tmp_path / "state")}}) as made:
        ask(made[0].path)
        yield made[0]


def test_the_status_of_an_agent_says_what_it_has_and_does(agent, cli):
    shown = cli("site", "status", agent.state_dir)
    assert shown.code == 0
    assert 'site "ward-7": its agent runs since' in shown.out
    assert "1 since its start, 1 of them refusals" in shown.out  # a split, and it has own data
    assert "ledger:   1 reply, " in shown.out
    assert "scans.npz" in shown.out
    assert all(len(line) <= 80 for line in shown.out.splitlines() if "/" not in line)


def test_the_agents_data_are_audited_in_place(agent, cli, tmp_path):
    shown = cli("site", "audit", agent.state_dir, "--out", tmp_path / "audit")
    assert shown.code == 0, shown.err
    assert (tmp_path / "audit" / "audit.html").exists()


def test_a_folder_without_an_agent_is_named(cli, tmp_path):
    for command in ("status", "audit"):
        shown = cli("site", command, tmp_path)
        assert shown.code == 4
        assert "it has no agent.json" in shown.message
    (tmp_path / "agent.json").write_text("{}")
    assert "it is damaged" in cli("site", "status", tmp_path).message


def test_an_agent_needs_a_site_and_a_socket_that_can_be_made(cli, tmp_path):
    shown = cli("site", "serve", "--socket", tmp_path / "s")
    assert shown.code == 2
    assert "say whose data it owns" in shown.message
    own = ("--partition-id", 0, "--state-dir", tmp_path / "state")
    shown = cli("site", "serve", "--socket", tmp_path / ("s" * 200), *own)
    assert shown.code == 3
    assert "a socket's path of at most 100 bytes" in shown.message
