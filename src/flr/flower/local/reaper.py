"""Ends process groups when the process that started them is gone, however it ended.

Run as a script of its own. It reads lines "+<group>" and "-<group>" from a pipe. The pipe is closed
when the writer ends, even if it was killed; every group still on the list is then killed.
"""

import os
import signal
import sys
from contextlib import suppress

if __name__ == "__main__":
    groups: set[int] = set()
    for line in sys.stdin:
        (groups.add if line[0] == "+" else groups.discard)(int(line[1:]))
    for group in groups:
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
