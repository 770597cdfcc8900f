"""Runs the command line in this process, as a shell would see it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from flr.cli.main import main


@dataclass(frozen=True)
class Result:
    """What a shell sees."""

    code: int
    out: str
    err: str

    @property
    def message(self) -> str:
        """Standard error on one line, whatever the width of the terminal."""
        return " ".join(self.err.split())


@pytest.fixture
def cli(monkeypatch, capsys) -> Callable[..., Result]:
    """`cli("run", "x.toml")`."""

    def call(*args: object) -> Result:
        monkeypatch.setattr(sys, "argv", ["flr", *map(str, args)])
        monkeypatch.setenv("COLUMNS", "80")
        capsys.readouterr()
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
        seen = capsys.readouterr()
        return Result(code, seen.out, seen.err)

    return call
