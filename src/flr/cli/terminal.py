"""Where commands print, also when nobody reads any more."""

from __future__ import annotations

import logging
import os
import sys
from typing import Any

import typer
from rich.console import Console

from flr.core.plain_text import printable

STOPPED = 130  # typer's exit code for Ctrl-C


class Screen(Console):
    """Goes on in silence when its reader has gone (`flr run ... | head`): training is no output.

    So it does where what is printed goes to a disk that is full. What others wrote, such as a file
    name or a class, is neither taken for markup nor obeyed by the terminal.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, **options)

    def print(self, *objects: Any, **options: Any) -> None:
        """Text as a terminal can show it."""
        shown = (printable(each) if isinstance(each, str) else each for each in objects)
        try:
            super().print(*shown, **options)
        except OSError as error:
            hush()
            if not self.stderr:
                errors.print(f"Nothing more is printed: the system says {error.strerror}.")

    def on_broken_pipe(self) -> None:
        """Instead of ending the process, as rich does."""
        hush()


def hush() -> None:
    """Sends what is still printed to nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


class PrintableFormatter(logging.Formatter):
    """For log lines, which name what others wrote."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


console = Screen()
errors = Screen(stderr=True)


def say(text: str) -> None:
    """As it is, on one line: a path or a command can be copied, and no name is taken for markup."""
    console.print(text, soft_wrap=True)


def put(text: str) -> None:
    """Whole lines of a table, for people and programs: nothing is wrapped or left out."""
    typer.echo(printable(text), nl=False)
