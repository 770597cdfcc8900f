"""Ctrl-C, kept away from moments in which it would lose something."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def ctrl_c_waits() -> Iterator[None]:
    """A Ctrl-C that comes inside is heard when the block has ended.

    Blocking the signal would not do: a thread of a library then takes it, and Python raises all
    the same. Only the main thread ever hears of it; in others there is nothing to do.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if came:
            signal.raise_signal(signal.SIGINT)
