"""Another user of the machine: gets at no file of the agent, and is answered only if allowed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, agents, ask, short_folder

from flr.core.errors import ConfigError
from flr.flower import ledger
from flr.flower.agent import peers
from flr.flower.agent.peers import Peers

OTHER = 61000
ROOT = os.geteuid() == 0  # who is not cannot become another user


def as_other(what: Callable[[], Any]) -> Any:
    """What a function gives in a process of another user; where we are not root, in ours."""
    reading, writing = os.pipe()
    if not (child := os.fork()):
        try:
            if ROOT:
                os.setgroups([])
                os.setgid(OTHER)
                os.setuid(OTHER)
            os.write(writing, json.dumps(what()).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        found = file.read()
    os.waitpid(child, 0)
    return json.loads(found)


def opened(path: Path) -> str:
    try:
        path.read_bytes()
    except OSError as error:
        return type(error).__name__
    return "read"


def one(folder: Path, who: Peers, **own: Any) -> Any:
    node = {"partition-id": 0, "state-dir": str(folder / "state"), **own}
    return agents({0: node}, who)


def test_another_user_reads_no_file_and_is_answered_if_allowed(tmp_path):
    allowed = Peers(frozenset({os.geteuid(), OTHER}))
    with one(tmp_path, allowed) as made:
        agent: Agent = made[0]
        agent.path.parent.chmod(0o755)
        assert as_other(lambda: ask(agent.path))["site"] == "site-0"
        assert ask(agent.path)["site"] == "site-0"
        written = [path for path in agent.state_dir.rglob("*") if path.is_file()]
        assert agent.state_dir / ledger.NAME in written
        for path in written:
            there = as_other(lambda path=path: opened(path))
            assert there == ("PermissionError" if ROOT else "read")
        assert agent.state_dir.stat().st_mode & 0o777 == 0o700


def test_a_socket_that_is_for_ones_own_user_does_not_open_for_others(tmp_path):
    with one(tmp_path, Peers.of()) as made:
        made[0].path.parent.chmod(0o755)
        said = str(as_other(lambda: ask(made[0].path)))
        assert ("may not open the agent's socket" if ROOT else "site-0") in said


def test_who_is_not_allowed_is_refused_whatever_it_sends(tmp_path, caplog):
    with one(tmp_path, Peers(frozenset({OTHER}))) as made:  # not even us
        assert ask(made[0].path) == "its agent does not answer this user"
        assert ask(made[0].path) == "its agent does not answer this user"
        assert not (made[0].state_dir / ledger.NAME).exists()
    assert caplog.text.count(f"user {os.geteuid()} is not allowed to ask") == 1


def test_groups_are_allowed_too(tmp_path):
    with one(tmp_path, Peers(frozenset(), frozenset({os.getegid()}))) as made:
        assert ask(made[0].path)["site"] == "site-0"


def test_names_and_numbers_say_who():
    assert Peers.of(["root", "61000"]).users == {os.geteuid(), 0, OTHER}
    assert not Peers.of().others
    assert Peers.of([], ["0"]).others
    with pytest.raises(ConfigError, match=r'there is no "nobody-at-all".*--allow-user'):
        Peers.of(["nobody-at-all"])


def test_files_that_everyone_can_read_are_refused_where_others_may_ask():
    with short_folder() as folder:
        data = folder / "data.npz"
        data.write_bytes(b"x")
        data.chmod(0o644)
        assert not peers.readable_by_all(data)  # the folder is closed
        folder.chmod(0o755)
        assert peers.readable_by_all(data)
        with pytest.raises(ConfigError, match=r"every user can read .*data\.npz"):
            peers.refuse_open([data, folder / "none"])
        folder.chmod(0o711)  # nobody sees what is in it, and whoever knows a name can read it
        assert peers.readable_by_all(folder)
        folder.chmod(0o755)
        data.chmod(0o640)
        peers.refuse_open([data])
