"""Commands whose numbers are compared between machines begin again with bits that travel."""

from __future__ import annotations

import os
import subprocess
import sys

from flr.core import bits


def restart() -> None:
    """Begins the command again with portable bits, unless the environment has chosen already.

    torch has read its settings by now, so that another process has to start.
    """
    if bits.ASKED in os.environ or bits.now() == "portable":
        return
    os.environ[bits.ASKED] = "portable"
    command = [sys.executable, *sys.orig_argv[1:]]
    sys.stdout.flush()
    if os.name == "nt":  # where a process cannot become another one
        sys.exit(subprocess.call(command))  # noqa: S603 - our own command line
    os.execv(sys.executable, command)  # noqa: S606 - as above
