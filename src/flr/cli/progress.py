"""Shows a run while it runs: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)

from flr.report.formatting import news


class WithBar:
    """Shows a bar from beginning to end; there is none unless a person watches."""

    bar: Progress | None

    def __enter__(self) -> Self:
        if self.bar:
            self.bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self.bar:
            self.bar.stop()


class RunProgress(WithBar):
    """Gets each round's metrics from the engine; use it as a context and pass it as `on_round`."""

    def __init__(self, label: str, rounds: int, console: Console) -> None:
        self.label, self.rounds, self.console = label, rounds, console
        live = console.is_terminal and sys.stdout.isatty()
        self.first: tuple[int, float] | None = None  # round and time; before it is start-up
        self.news = ""
        columns = (
            TextColumn("{task.description:<8}", markup=False),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TextColumn("{task.fields[news]}", markup=False),
            TimeRemainingColumn(),
        )
        self.bar = Progress(*columns, console=console) if live else None
        self.task = self.bar.add_task(label, total=rounds, news="starting") if self.bar else None

    def __call__(self, metrics: dict[str, Any]) -> None:
        """A round is over."""
        done = int(metrics["round"])
        self.first = self.first or (done, time.monotonic())
        since, then = self.first
        self.news = news(metrics) or self.news
        if self.bar and self.task is not None:
            self.bar.update(self.task, completed=done, news=self.news)
        elif done == self.rounds or done % max(self.rounds // 5, 1) == 0:
            per_round = (time.monotonic() - then) / max(done - since, 1)
            left = f"{per_round * (self.rounds - done):.0f} s left" if done > since else ""
            self.console.print(
                f"{self.label:<8} round {done}/{self.rounds}  {self.news}  {left}",
                soft_wrap=True,
            )


class Steps(WithBar):
    """Gets the name of a step and the share of it that is done: a bar for people, else a line."""

    def __init__(self, console: Console) -> None:
        live = console.is_terminal and sys.stdout.isatty()
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=20),
            TimeRemainingColumn(),
        )
        self.console, self.said = console, set[str]()
        self.bar = Progress(*columns, console=console, transient=True) if live else None
        self.task = self.bar.add_task("", total=1.0) if self.bar else None

    def of(self, whose: str) -> Callable[[str, float], None]:
        """For one of many: on a terminal its name is before each step, elsewhere nothing is."""
        if self.bar is None:
            return lambda _step, _share: None
        return lambda step, share: self(f"{whose}: {step}", share)

    def __call__(self, step: str, share: float) -> None:
        step = step[:1].upper() + step[1:]
        if self.bar and self.task is not None:
            if share < self.bar.tasks[0].completed:  # another count of steps: its own time left
                self.bar.reset(self.task)
            self.bar.update(self.task, description=step, completed=share)
        elif step not in self.said and share < 1:
            self.console.print(f"{step} ...")
            self.said.add(step)
