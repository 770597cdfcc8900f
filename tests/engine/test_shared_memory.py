"""Too little shared memory, as in a container: one process trains instead, and says so."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from toys import bits, train

import flr

# No file of the run may be larger, and none is; a buffer in /dev/shm would be.
SCRIPT = """
import resource, sys
import flr, toys
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
flr.run(toys.settings("flr", workers=2), out=sys.argv[1])
"""


def test_a_run_goes_on_in_one_process_and_says_so(tmp_path):
    path = os.pathsep.join([str(Path(__file__).parents[1] / "contract"), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "run")],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "--shm-size" in done.stderr
    assert "Going on with one process" in done.stderr
    assert bits(flr.Run(tmp_path / "run")) == bits(train("flr", tmp_path / "here"))
