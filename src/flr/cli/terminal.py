"""Where commands print, also when nobody reads any more."""

from __future__ import annotations

import os
import sys

from rich.console import Console

STOPPED = 130  # typer's exit code for Ctrl-C


class Screen(Console):
    """Goes on in silence when its reader has gone (`flr run ... | head`): training is no output."""

    def on_broken_pipe(self) -> None:
        """Instead of ending the process, as rich does."""
        hush()


def hush() -> None:
    """Sends what is still printed to nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


console = Screen(highlight=False)
errors = Console(stderr=True, highlight=False)


def say(text: str) -> None:
    """As it is, on one line: a path or a command can be copied, and no name is taken for markup."""
    console.print(text, soft_wrap=True, markup=False)
