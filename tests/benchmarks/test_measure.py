"""A process is measured with all its descendants, and what it says is checked."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from benchmarks import ROOT, processes, workloads
from benchmarks.engine_process import end
from benchmarks.engines import PEERS, Engine
from benchmarks.interleave import measure_memory
from benchmarks.prepare import prepare
from flr.core.errors import RunError

TURN = """
import sys
def turn():
    print("turn", flush=True)
    sys.stdin.readline()
"""
HEAVY = """
import json, subprocess, time
turn()
child = subprocess.Popen([sys.executable, "-c", '''
import sys, time
block = bytearray(b"x" * 80_000_000)
sys.stdout.write("there")
sys.stdout.flush()
time.sleep(1)
'''], stdout=subprocess.PIPE)
child.stdout.read(5)
child.wait()
turn()
print("noise")
print(json.dumps({"steps": 7, "version": "v1"}))
"""


def run(code: str, tmp_path: Path):
    return measure_memory(Engine("engine", (sys.executable, "-c", TURN + code)), tmp_path, rounds=2)


LINUX = pytest.mark.skipif(not processes.CAN_MEASURE, reason="needs PSS")


@LINUX
def test_memory_of_descendants(tmp_path):
    found = run(HEAVY, tmp_path)
    assert found.memory is not None
    assert 80e6 < found.memory < 400e6
    assert len(found.rounds) == 1
    assert found.rounds[0] > 1  # the child's second is in it
    assert found.first_round > 0
    assert (found.steps, found.version, found.repeat) == (7, "v1", 0)


def test_ending_a_process_ends_what_it_has_started():
    code = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    child = int(process.stdout.readline())
    end(process)
    assert process.stdout.read() == ""  # nobody holds the other end any more
    assert process.returncode == -signal.SIGKILL
    with suppress(psutil.NoSuchProcess):  # gone, or waiting to be fetched
        assert psutil.Process(child).cmdline() == []
    process.stdout.close()


@LINUX
def test_a_process_that_is_gone_has_no_memory():
    waits = [sys.executable, "-c", "print('there', flush=True); input()"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(waits, **pipes, start_new_session=True) as process:
        process.stdout.readline()  # before that the interpreter may not even be loaded
        assert processes.proportional_memory(process.pid) > 1e6
        process.communicate(b"\n")
    assert processes.proportional_memory(process.pid) == 0
    assert processes.cpu_seconds(process.pid) == {}


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (
            "raise SystemExit('out of luck')",
            "another round within 300 s; it ended with code 1",
        ),
        ("turn(); sys.exit('no more')", "no more"),
        ("turn(); turn(); sys.stderr.write('no result')", "no result"),
        ("turn(); turn(); print([1])", "one line of JSON"),
        ("turn(); turn(); print('{}'); sys.exit(3)", "end with code 0"),
    ],
)
def test_an_engine_that_fails_is_named_with_its_last_words(code, reason, tmp_path):
    with pytest.raises(RunError, match="Expected engine to") as caught:
        run(code, tmp_path)
    assert reason in str(caught.value)


def test_sessions_include_orphans_and_descendants_with_sessions_of_their_own():
    code = """
import subprocess, sys, time
def start(code, **more):
    call = [sys.executable, "-c", code]
    child = subprocess.Popen(call, stdout=subprocess.PIPE, text=True, **more)
    return child.stdout.readline().strip()
sleeps = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
apart = start(sleeps, start_new_session=True)
orphan = start(f"import subprocess; subprocess.Popen(['{sys.executable}', '-c', '{sleeps}'])")
print(apart, orphan, flush=True)
time.sleep(600)
"""
    call = [sys.executable, "-c", code]
    with subprocess.Popen(
        call, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as leader:
        assert leader.stdout is not None
        apart, orphan = map(int, leader.stdout.readline().split())
        try:
            found = {process.pid for process in processes.session(leader.pid)}
            assert {leader.pid, apart, orphan} <= found
            assert os.getpid() not in found
        finally:
            os.kill(apart, signal.SIGKILL)
            end(leader)


def test_the_adapter_page_names_every_file_and_key(tmp_path: Path) -> None:
    """benchmarks/README.md is what authors of adapters work from."""
    page = (ROOT / "benchmarks" / "README.md").read_text()
    prepare(workloads.get("digits"), tmp_path, rounds=2, seed=1)
    assert {path.name for path in tmp_path.iterdir()} == {
        "data.npz",
        "initial.npz",
        "plan.npz",
        "workload.json",
    }
    keys = json.loads((tmp_path / "workload.json").read_text())
    for word in (*keys, *(path.name for path in tmp_path.iterdir())):
        assert f"`{word}`" in page, word
    for peer in PEERS:
        assert f"| `{peer.module}` | `{peer.variable}` |" in page
