"""An engine in a process of its own, which computes one round when it is told to."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from threading import Timer
from typing import IO, Any

from benchmarks import ROOT
from benchmarks.engines import Engine
from benchmarks.protocol import QUIET
from flr.core.errors import RunError

LIMIT = 300.0  # seconds for one round; an engine that takes longer hangs
_LINES = 12  # of an engine that failed


class EngineProcess:
    """Computes one round after the other; is ended, with all that it has started, at exit."""

    def __init__(self, engine: Engine, folder: Path, *options: str) -> None:
        self.name = engine.name
        self.errors = TemporaryFile("w+")  # noqa: SIM115 - closed at exit
        self.began = time.monotonic()
        self.process = subprocess.Popen(  # noqa: S603 - our own engines, and those the user named
            engine.call(folder, "--turns", *options),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            cwd=ROOT,  # where `-m benchmarks...` is found
            env={**os.environ, **QUIET},
            start_new_session=True,
        )
        self.pid = self.process.pid
        self.rounds: list[float] = []  # seconds; the first from the start of the process

    def __enter__(self) -> EngineProcess:
        return self

    def __exit__(self, *_: object) -> None:
        end(self.process)
        self.process.communicate()
        self.errors.close()

    def play(self) -> None:
        """One more round; the first begins by itself."""
        if self.rounds:
            self.began = time.monotonic()
            self._go_on()
        with limited(self.process):
            for line in _there(self.process.stdout):
                if line == "turn\n":
                    self.rounds.append(time.monotonic() - self.began)
                    return
        raise self._failed("train another round")

    def result(self) -> dict[str, Any]:
        """What it says when all rounds are over."""
        self._go_on()
        with limited(self.process):
            said = _there(self.process.stdout).read().strip()
        code = self.process.wait()
        try:
            found: dict[str, Any] = dict(json.loads(said.splitlines()[-1]))
        except (ValueError, IndexError, TypeError):
            raise self._failed("end with one line of JSON, an object,", said) from None
        if code:
            raise self._failed("end with code 0", said)
        return found

    def _go_on(self) -> None:
        """Says that it is its turn; one that has died is noticed when its answer is awaited."""
        try:
            _there(self.process.stdin).write("\n")
            _there(self.process.stdin).flush()
        except BrokenPipeError:
            return

    def _failed(self, expected: str, said: str = "") -> RunError:
        """Why it cannot be measured, with its last words."""
        end(self.process)
        self.errors.seek(0)
        last = "\n".join((self.errors.read().strip() or said).splitlines()[-_LINES:])
        return RunError(
            f"Expected {self.name} to {expected} within {LIMIT:.0f} s; it ended with code "
            f"{self.process.returncode}. Mend it, or leave it out. Its last lines:\n{last}"
        )


def end(process: subprocess.Popen[Any]) -> None:
    """Ends a process that leads a session, with those it has started; one that has ended stays."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextmanager
def limited(process: subprocess.Popen[Any]) -> Iterator[None]:
    """Ends a process that does not answer in time."""
    timer = Timer(LIMIT, end, [process])
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()  # it may be waiting for the process, which two threads cannot do at once


def _there(pipe: IO[str] | None) -> IO[str]:
    """An end of a pipe, which is there because it was asked for."""
    assert pipe is not None  # noqa: S101 - all three were asked for
    return pipe
