"""Starts ClientApps by a fork of a process that has imported Flower, not by a new Python for each.

A SuperNode with `--isolation process` leaves it to another process to start what its messages are
for. Flower's own, `flower-superexec`, starts a Python that imports Flower for every one of them:
a second of CPU. This one has imported it already. Each ClientApp is still a process of its own,
which ends with its message, and nothing of the app's is imported here.

    python -m flr.flower.quick.launcher 127.0.0.1:9094 PID

PID is the SuperNode, which is asked every so often, and whose end is the end of this process.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import httpx
import numpy as np
from flwr.proto.message_pb2 import PullObjectRequest, PullObjectResponse
from flwr.proto.runtime_pb2 import (
    AcquireTaskRequest,
    PullAppMessagesRequest,
    PullAppMessagesResponse,
)
from flwr.supercore.constant import TaskType
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supernode.runtime import run_clientapp

from flr.flower import apps  # noqa: F401  # what an app of flr imports; no torch is in it

PAUSE = 0.1  # seconds between two questions
PATIENCE = 20.0  # seconds for a part of a message, after which Flower waits in its own way
Answer = TypeVar("Answer")

_STARTING = (httpx.TransportError, httpx.HTTPStatusError)  # a SuperNode that is not there yet


class SoonAgain(RuntimeHttpClient):
    """Asks again soon for what the SuperNode is only just fetching.

    Flower's waits a second for a part of a message, then two: long, for a ClientApp that is there
    before its message is.
    """

    def PullMessages(self, request: PullAppMessagesRequest) -> PullAppMessagesResponse:  # noqa: N802
        """The message without its parts."""
        return _soon(
            lambda: super(SoonAgain, self).PullMessages(request), lambda it: bool(it.messages_list)
        )

    def PullObject(self, request: PullObjectRequest) -> PullObjectResponse:  # noqa: N802
        """A part, unless there is no such part."""
        return _soon(
            lambda: super(SoonAgain, self).PullObject(request),
            lambda it: it.object_available or not it.object_found,
        )


def _soon(call: Callable[[], Answer], ready: Callable[[Answer], bool]) -> Answer:
    until = time.monotonic() + PATIENCE
    while not ready(found := call()) and time.monotonic() < until:
        time.sleep(PAUSE)
    return found


def main(address: str, supernode: int) -> None:
    """Returns when the SuperNode has gone; in every child, when its ClientApp has ended."""
    token = in_child_of_each_task(address, supernode)
    if token is not None:
        np.random.seed()  # a copy of this process would draw the same every time
        # Flower's function takes no client. Where it should be called otherwise one day, the name
        # means nothing, and Flower's own waits
        setattr(run_clientapp, "RuntimeHttpClient", SoonAgain)  # noqa: B010
        run_clientapp.run_clientapp(address, token, insecure=True, parent_pid=supernode)


def in_child_of_each_task(address: str, supernode: int) -> str | None:
    """Forks for every task: gives its token in the child, and None here at the end."""
    client = RuntimeHttpClient.from_server_address(
        address, True, None, [RuntimeVersionHttpInterceptor(component_name="SuperExec")]
    )
    gc.collect()
    gc.freeze()  # a child that ends would look through all that was imported, and copy it by that
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
