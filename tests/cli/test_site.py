"""`flr site`: what the people at a site see."""

from __future__ import annotations

from pathlib import Path

import pytest
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
