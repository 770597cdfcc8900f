"""Ends process groups when the process that started them is gone, however it ended.

Run as a script, on its own: it reads "+<group>" and "-<group>" lines, and the end of its input,
which comes even if the writer was killed, ends every group that is still on the list.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress


def main() -> None:
    groups: set[int] = set()
    for line in sys.stdin:
        if line[0] == "+":
            groups.add(int(line[1:]))
        else:
            groups.discard(int(line[1:]))
    for group in groups:
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    main()
