"""Starts ClientApps by a fork of a process that has imported Flower, not by a new Python for each.

A SuperNode with `--isolation process` leaves it to another process to start what its messages are
for. Flower's own, `flower-superexec`, starts a Python that imports Flower for every one of them:
a second of CPU. This one has imported it already. Each ClientApp is still a process of its own,
which ends with its message, and nothing of the app's is imported here.

    python -m flr.flower.quick.launcher 127.0.0.1:9094 PID

PID is the SuperNode, which is asked every so often, and whose end is the end of this process.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress

import httpx
import numpy as np
from flwr.proto.runtime_pb2 import AcquireTaskRequest
from flwr.supercore.constant import TaskType
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supernode.runtime.run_clientapp import run_clientapp

from flr.flower import apps  # noqa: F401  # what an app of flr imports; no torch is in it

PAUSE = 0.1  # seconds between two questions
_STARTING = (httpx.TransportError, httpx.HTTPStatusError)  # a SuperNode that is not there yet


def main(address: str, supernode: int) -> None:
    """Returns when the SuperNode has gone; in every child, when its ClientApp has ended."""
    token = in_child_of_each_task(address, supernode)
    if token is not None:
        np.random.seed()  # a copy of this process would draw the same every time
        run_clientapp(address, token, insecure=True, parent_pid=supernode)


def in_child_of_each_task(address: str, supernode: int) -> str | None:
    """Forks for every task: gives its token in the child, and None here at the end."""
    client = RuntimeHttpClient.from_server_address(
        address, True, None, [RuntimeVersionHttpInterceptor(component_name="SuperExec")]
    )
    wanted = AcquireTaskRequest(supported_task_types=[TaskType.CLIENT_APP])
    while os.getppid() == supernode:
        token = ""
        with suppress(*_STARTING):
            token = client.AcquireTask(wanted).token
        if token and os.fork() == 0:
            return token
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(PAUSE)
    return None


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: the SuperNode ends, then this
    main(sys.argv[1], int(sys.argv[2]))
