"""A process is measured with all its descendants, and what it says is checked."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from flr.bench import processes
from flr.bench.measure import end, look_at
from flr.errors import RunError

HEAVY = """
import json, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", '''
import sys, time
block = bytearray(b"x" * 80_000_000)
sys.stdout.write("there")
sys.stdout.flush()
time.sleep(1)
'''], stdout=subprocess.PIPE)
child.stdout.read(5)
began = time.monotonic()
time.sleep(1)
child.wait()
print("noise")
print(json.dumps({"ends": [began, began + 2, began + 3], "steps": 7, "version": "v1"}))
"""


def run(code: str):
    return look_at("engine", [sys.executable, "-c", code])


LINUX = pytest.mark.skipif(not processes.can_measure(), reason="needs /proc/PID/smaps_rollup")


@LINUX
def test_memory_of_descendants():
    found = run(HEAVY)
    assert found.memory is not None
    assert 80e6 < found.memory < 400e6
    assert found.rounds == pytest.approx((2.0, 1.0))
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
    assert (
        not Path(f"/proc/{child}/cmdline").exists()
        or not Path(f"/proc/{child}/cmdline").read_bytes()
    )  # gone, or waiting to be fetched
    process.stdout.close()


@LINUX
def test_a_process_that_is_gone_has_no_memory():
    own = processes.proportional_memory([os.getpid()])
    assert own > 10e6
    assert processes.proportional_memory([2**22 + 1]) == 0


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("raise SystemExit('out of luck')", "code 1"),
        ("import sys; sys.stderr.write('no ends')", "no ends"),
        ("print('{\"ends\": [1]}')", "two rounds"),
        ("print([])", '"ends"'),
    ],
)
def test_an_engine_that_fails_is_named_with_its_last_words(code, reason):
    with pytest.raises(RunError, match="Expected engine to end with one line of JSON") as caught:
        run(code)
    assert reason in str(caught.value)


def test_families_include_orphans_of_the_session():
    known = {
        pid: processes.Process(pid, parent, session, 1.0)
        for pid, parent, session in [(5, 1, 5), (6, 5, 5), (7, 6, 7), (8, 1, 5), (9, 1, 1)]
    }
    assert processes.family(5, known) == {5, 6, 7, 8}


def test_the_adapter_page_names_every_file_and_key(tmp_path: Path) -> None:
    """benchmarks/README.md is what authors of adapters work from."""
    from flr.bench import workloads
    from flr.bench.engines import PEERS
    from flr.bench.prepare import prepare

    page = (Path(__file__).parents[2] / "benchmarks" / "README.md").read_text()
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
        assert f"| `{peer.adapter}` | `{peer.variable}` |" in page
