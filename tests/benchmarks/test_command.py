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

from benchmarks import cost, engine_process, engines, workloads
from benchmarks.__main__ import main
from benchmarks.compare import PreparedEngine, checked, timed
from benchmarks.engine_process import EngineProcess
from benchmarks.prepare import prepare
from benchmarks.protocol import RoundEnds
from flr.core.errors import ConfigError, RunError

ADAPTER = """
import torch
from benchmarks import protocol, reference

torch.set_num_threads(1)
options = protocol.parser().parse_args()
turn = protocol.RoundEnds(options.turns)
steps, weights = reference.train(reference.read(options.folder), turn)
print("a word of its own")
protocol.print_result(turn, steps=steps + {lie}, version="peer 9")
"""


def peer(lie: int = 0) -> engines.Engine:
    """An engine that trains truly, or says that it took more steps."""
    return engines.Engine("pfl", (sys.executable, "-c", ADAPTER.format(lie=lie)))


def call(monkeypatch, capsys, *args: str) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["benchmarks", *args])
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as stop:
        main()
    seen = capsys.readouterr()
    return int(stop.value.code or 0), seen.out, seen.err


def test_the_whole_command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(engines, "compared", lambda: [engines.unit(), engines.own(2), peer()])
    asked = ("digits", "--rounds", "2", "--repeats", "1", "--seed", "7", "--out", "found")
    code, out, _ = call(monkeypatch, capsys, *asked)
    assert code == 0
    assert all(len(line) <= 80 for line in out.splitlines())
    result = json.loads(Path("found/digits.json").read_text())
    assert result["command"] == "python -m benchmarks " + " ".join(asked)
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


def test_other_work_is_refused(tmp_path):
    prepared = prepare(workloads.get("digits"), tmp_path / "data", rounds=2, seed=1)
    engine = PreparedEngine(peer(lie=1), prepared)
    with pytest.raises(RunError, match=r"Expected [\d,]+ steps of pfl in 2 rounds; it took"):
        checked([engine], timed([engine], 1))


def test_flr_and_its_units_take_turns_in_one_process(tmp_path):
    prepared = prepare(workloads.get("digits"), tmp_path, rounds=3, seed=1)
    said: list[str] = []
    taken = cost.measure_cost(prepared, 1, said.append)
    assert said == ["repeat 1 of 1: FedAvg, FLR and forward passes take turns"]
    by_name = {done.engine: done for done in taken}
    names = ["fedavg", "flr, batch", "forwards, steps", "flr, round", "forwards, samples"]
    assert list(by_name) == names
    assert all(len(done.rounds) == 2 and min(done.rounds) > 0 for done in taken)
    assert all(done.first_round > 0 and done.cpu is None for done in taken)
    assert all(done.others is None or 0 <= done.others <= 1 for done in taken)
    assert isinstance(cost.cost(by_name, "batch"), float)


@pytest.mark.usefixtures("one_thread")
def test_one_thread_computes_at_a_time():
    seen: list[str] = []

    def two_rounds(name, turn):
        for number in (1, 2):
            seen.append(f"{name}{number}")
            turn()
        seen.append(f"{name} ends")

    threads = [cost.EngineThread(name, partial(two_rounds, name)) for name in "ab"]
    seconds = cost.interleave_threads(threads, 2, lambda: seen.append("|"))
    assert seen == ["a1", "b1", "|", "b2", "a2", "|", "a ends", "b ends"]
    assert [len(taken) for taken in seconds.values()] == [2, 2]


@pytest.mark.usefixtures("one_thread")
def test_a_thread_that_fails_ends_all():
    def fails(turn):
        raise RunError("Expected weights; there are none. Train some.")

    with pytest.raises(RunError, match="there are none"):
        cost.interleave_threads([cost.EngineThread("a", fails)], 2, RoundEnds())


@pytest.mark.usefixtures("one_thread")
def test_a_thread_that_ends_too_early_is_named():
    with pytest.raises(RunError, match="Expected another round of a; it has ended"):
        cost.interleave_threads([cost.EngineThread("a", lambda turn: turn())], 2, RoundEnds())


def test_an_engine_that_hangs_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(engine_process, "LIMIT", 0.5)
    hanging = engines.Engine("peer", (sys.executable, "-c", "import time; time.sleep(600)"))
    with (
        pytest.raises(RunError, match=r"Expected peer to train another round within 0 s"),
        EngineProcess(hanging, tmp_path) as process,
    ):
        process.play()


def test_a_process_ended_for_its_slowness_is_gone_before_anyone_else_looks(monkeypatch):
    def end_slowly(process):
        os.killpg(process.pid, signal.SIGKILL)
        time.sleep(0.3)
        process.wait()

    monkeypatch.setattr(engine_process, "LIMIT", 0.1)
    monkeypatch.setattr(engine_process, "end", end_slowly)
    call = [sys.executable, "-c", "import time; time.sleep(600)"]
    with subprocess.Popen(call, stdout=subprocess.PIPE, start_new_session=True) as hanging:
        with engine_process.limited(hanging):
            hanging.stdout.read()
        assert hanging.returncode == -signal.SIGKILL


def test_an_engine_that_fails_is_named(tmp_path):
    prepare(workloads.get("digits"), tmp_path, rounds=2, seed=1)
    (tmp_path / "plan.npz").unlink()
    engine = engines.reference("the bare loop")
    with (
        pytest.raises(RunError, match=r"(?s)Expected the bare loop to train another.*plan\.npz"),
        EngineProcess(engine, tmp_path) as process,
    ):
        process.play()


def test_peers_need_a_python():
    assert engines.peers({}) == []
    with pytest.raises(ConfigError, match="a Python for pfl at /no/such"):
        engines.peers({"FLR_BENCH_PFL": "/no/such"})
    (found,) = engines.peers({"FLR_BENCH_FEDJAX": sys.executable})
    assert found.call(Path("/a"), "--turns")[1:] == [
        "-m",
        "benchmarks.peers.fedjax_engine",
        "/a",
        "--turns",
    ]


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
