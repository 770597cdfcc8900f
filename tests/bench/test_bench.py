"""The whole command on small work: our engine, the bare loop, and a peer by an adapter."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from flr.bench import bare, cost, engines, runner, turns, workloads
from flr.bench.prepare import prepare
from flr.cli.main import main
from flr.errors import ConfigError, RunError

ADAPTER = """
import json, runpy, sys
from pathlib import Path

folder = Path(sys.argv[1])
workload = json.loads((folder / "workload.json").read_text())
bare = runpy.run_path(workload["plain"])
bare["torch"].set_num_threads(1)
turn = bare["wait_for_turn" if "--turns" in sys.argv else "at_once"]
ends, steps, weights = bare["train"](bare["read"](folder), turn)
print("a word of its own")
print(json.dumps({"ends": ends, "steps": steps + LIE, "version": "peer 9"}))
"""


@pytest.fixture
def peer(tmp_path, monkeypatch):
    """A peer that trains truly, or says that it took more steps."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLR_BENCH_PFL", sys.executable)
    Path("benchmarks").mkdir()

    def make(lie: int = 0) -> None:
        Path("benchmarks/pfl_engine.py").write_text(ADAPTER.replace("LIE", str(lie)))

    make()
    return make


def call(monkeypatch, capsys, *args: str) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["flr", "bench", *args])
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as stop:
        main()
    seen = capsys.readouterr()
    return int(stop.value.code or 0), seen.out, seen.err


def test_the_whole_command(peer, monkeypatch, capsys):
    def few() -> list[engines.Engine]:
        return [engines.unit(), engines.own(2), *engines.peers({"FLR_BENCH_PFL": sys.executable})]

    monkeypatch.setattr(engines, "compared", few)
    asked = ("digits", "--rounds", "2", "--repeats", "1", "--seed", "7", "--out", "found")
    code, out, _ = call(monkeypatch, capsys, *asked)
    assert code == 0
    assert all(len(line) <= 80 for line in out.splitlines())
    result = json.loads(Path("found/digits.json").read_text())
    assert result["command"] == "flr bench " + " ".join(asked)
    names = [row["engine"] for row in result["rows"]]
    assert names == ["bare loop", "flr, 2 workers", "pfl"]
    assert [row["difference"] for row in result["rows"]] == [0.0, 0.0, None]
    assert result["rows"][2]["version"] == "peer 9"
    steps = {(run["engine"], run["repeat"]): run["steps"] for run in result["measured"]}
    assert steps["flr, 2 workers", 0] == steps["bare loop", 1] == steps["pfl", 1]
    assert [run["engine"] for run in result["measured"] if run["repeat"]] == names
    for row in result["rows"]:
        assert row["engine"] in out
        assert row["ratio"]["low"] <= row["ratio"]["median"] <= row["ratio"]["high"]
        assert row["memory"] is None or row["memory"] > 50e6
    assert "## `digits`" in Path("found/table.md").read_text()


def test_other_work_is_refused(peer, tmp_path):
    peer(lie=1)
    prepared = prepare(workloads.get("digits"), tmp_path / "data", rounds=2, seed=1)
    (engine,) = engines.peers({"FLR_BENCH_PFL": sys.executable})
    with pytest.raises(RunError, match=r"Expected [\d,]+ steps of pfl in 2 rounds; it took"):
        runner.turns([runner.Entry(engine, prepared)], 1)


def test_flr_and_its_units_take_turns_in_one_process(tmp_path):
    prepared = prepare(workloads.get("digits"), tmp_path, rounds=3, seed=1)
    said: list[str] = []
    taken = cost.repeated(prepared, 1, said.append)
    assert said == ["repeat 1 of 1: FedAvg, FLR and forward passes take turns"]
    by_name = {done.engine: done for done in taken}
    names = ["fedavg", "flr, batch", "forwards, steps", "flr, round", "forwards, samples"]
    assert list(by_name) == names
    assert all(len(done.rounds) == 2 and min(done.rounds) > 0 for done in taken)
    assert all(done.first_round > 0 and done.cpu is None for done in taken)
    assert all(done.others is None or 0 <= done.others <= 1 for done in taken)
    assert isinstance(cost.cost(by_name, "batch"), float)


@pytest.mark.usefixtures("one_thread")
def test_one_contestant_computes_at_a_time():
    seen: list[str] = []

    def two_rounds(name, turn):
        for number in (1, 2):
            seen.append(f"{name}{number}")
            turn()
        seen.append(f"{name} ends")

    playing = [cost.Contestant(name, partial(two_rounds, name)) for name in "ab"]
    seconds = cost.compete(playing, 2, lambda: seen.append("|"))
    assert seen == ["a1", "b1", "|", "b2", "a2", "|", "a ends", "b ends"]
    assert [len(taken) for taken in seconds.values()] == [2, 2]


@pytest.mark.usefixtures("one_thread")
def test_a_contestant_that_fails_ends_the_contest():
    def fails(turn):
        raise RunError("Expected weights; there are none. Train some.")

    with pytest.raises(RunError, match="there are none"):
        cost.compete([cost.Contestant("a", fails)], 2, bare.at_once)


@pytest.mark.usefixtures("one_thread")
def test_a_contestant_that_ends_too_early_is_named():
    with pytest.raises(RunError, match="Expected another round of a; it has ended"):
        cost.compete([cost.Contestant("a", lambda turn: turn())], 2, bare.at_once)


def test_an_engine_that_hangs_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(turns, "LIMIT", 0.5)
    hanging = engines.Engine("peer", (sys.executable, "-c", "import time; time.sleep(600)"))
    with (
        pytest.raises(RunError, match=r"Expected peer to train another round within 0 s"),
        turns.started([(hanging, tmp_path)]),
    ):
        pytest.fail("it cannot have started")


def test_a_process_ended_for_its_slowness_is_gone_before_anyone_else_looks(monkeypatch):
    def end_slowly(process):
        os.killpg(process.pid, signal.SIGKILL)
        time.sleep(0.3)
        process.wait()

    monkeypatch.setattr(turns, "LIMIT", 0.1)
    monkeypatch.setattr(turns, "end", end_slowly)
    call = [sys.executable, "-c", "import time; time.sleep(600)"]
    with subprocess.Popen(call, stdout=subprocess.PIPE, start_new_session=True) as hanging:
        with turns.limited(hanging):
            hanging.stdout.read()
        assert hanging.returncode == -signal.SIGKILL


def test_a_player_that_fails_is_named(tmp_path):
    prepare(workloads.get("digits"), tmp_path, rounds=2, seed=1)
    (tmp_path / "plan.npz").unlink()
    engine = engines.plain("the bare loop")
    with (
        pytest.raises(RunError, match=r"(?s)Expected the bare loop to train another.*plan\.npz"),
        turns.started([(engine, tmp_path)]),
    ):
        pytest.fail("it cannot have started")


def test_peers_need_a_python_and_an_adapter(peer):
    assert engines.peers({}) == []
    with pytest.raises(ConfigError, match="a Python for pfl at /no/such"):
        engines.peers({"FLR_BENCH_PFL": "/no/such"})
    with pytest.raises(ConfigError, match="an adapter for FedJAX"):
        engines.peers({"FLR_BENCH_FEDJAX": sys.executable})


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (("--list",), 0, "100,000 clients against 100"),
        ((), 2, "give the name of a workload"),
        (("mian",), 3, 'Did you mean "main"?'),
    ],
)
def test_listing_and_mistakes(args, code, words, monkeypatch, capsys):
    found, out, err = call(monkeypatch, capsys, *args)
    assert found == code
    assert words in " ".join((out + err).split())
