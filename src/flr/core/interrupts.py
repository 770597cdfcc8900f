"""Ctrl-C and its kin: what stops a run in good order, and when a stop has to wait."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

LIKE_CTRL_C = (signal.SIGTERM, signal.SIGHUP)  # a batch system, `docker stop`; a terminal that goes


@contextmanager
def stops_like_ctrl_c() -> Iterator[None]:
    """SIGTERM and SIGHUP raise KeyboardInterrupt inside, as Ctrl-C does.

    Only where nobody has decided otherwise: `nohup` ignores SIGHUP, and Flower has handlers of its
    own. Only the main thread can set and hear signals.
    """

    def stop(_number: int, _frame: Any) -> None:
        raise KeyboardInterrupt

    ours = []
    if threading.current_thread() is threading.main_thread():
        ours = [number for number in LIKE_CTRL_C if signal.getsignal(number) is signal.SIG_DFL]
    for number in ours:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


@contextmanager
def ctrl_c_waits() -> Iterator[None]:
    """A Ctrl-C that comes inside is heard when the block has ended, and so is what acts like it.

    Blocking the signal would not do: a thread of a library then takes it, and Python raises all
    the same. Only the main thread ever hears of it; in others there is nothing to do.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    numbers = [signal.SIGINT, *(n for n in LIKE_CTRL_C if callable(signal.getsignal(n)))]
    before = {n: signal.signal(n, lambda number, _: came.append(number)) for n in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])
