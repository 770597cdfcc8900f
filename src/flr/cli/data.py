"""`flr data get`: data sets from their publishers, when asked for."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from flr.cli.progress import WithBar
from flr.cli.terminal import console, say
from flr.core import registry
from flr.core.errors import DataError
from flr.data import paths

app = typer.Typer(help="Download public data sets, and check them.", no_args_is_help=True)

ON_REQUEST = "clothing1m"


@app.command()
def get(
    name: Annotated[str, typer.Argument(help="A data set, e.g. cifar10.", metavar="NAME")],
    to: Annotated[
        Path | None, typer.Option(help="The folder of your data sets (default: $FLR_DATA).")
    ] = None,
    base: Annotated[
        str | None, typer.Option("--from", metavar="URL", help="Another address with the files.")
    ] = None,
) -> None:
    """Download NAME from its publisher, go on where that stopped, check and unpack it."""
    from flr.data import download

    names = [*download.SOURCES, ON_REQUEST]
    if name not in names:
        raise typer.BadParameter(registry.unknown("NAME", name, names))
    known = os.environ.get(paths.VARIABLE, "").strip()
    if to is None and not known:
        raise DataError(
            f"Expected to be told where data sets go; neither --to nor {paths.VARIABLE} is set. "
            f"Choose a folder: flr data get {name} --to DIR, and set {paths.VARIABLE} to it, so "
            "that flr finds what is there."
        )
    folder = (to or Path(known).expanduser()).absolute()
    if name == ON_REQUEST:
        require_clothing(folder)
        say(f"{name} is already there: {folder / name}")
        return
    with DownloadProgress(console) as progress:
        got = download.get(name, folder, base, progress)
    say(f"{name} {'is there now' if got.new else 'is already there'}: {got.path}")
    if got.archive is not None:
        say(f"{got.archive} is not needed any more.")
    if not known:
        say(f"So that flr finds it: export {paths.VARIABLE}={folder}")


def require_clothing(folder: Path) -> None:
    """Says what to do where Clothing1M is missing: its authors give it to those who ask them."""
    place = folder / ON_REQUEST
    if (place / "noisy_train_key_list.txt").is_file():
        return
    raise DataError(
        f"Expected Clothing1M in {place}; it is not there and cannot be downloaded: its authors "
        "give it to those who ask, for research.\n"
        "  1. Ask them, as https://github.com/Cysu/noisy_label says; they send a link.\n"
        f"  2. Put what they give into {place}, so that {place / 'noisy_train_key_list.txt'}, the "
        f"other lists and {place / 'images'} are there.\n"
        f"  3. Unpack the archives 0.tar ... 9.tar inside {place / 'images'}, so that there are "
        "folders 0 ... 9.\n"
        f'Then set {paths.VARIABLE}={folder} and use [data] name = "{ON_REQUEST}".'
    )


class DownloadProgress(WithBar):
    """Shows bytes on a terminal, and a line for each file elsewhere."""

    def __init__(self, console: Console) -> None:
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=20),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
        )
        self.bar = Progress(*columns, console=console) if console.is_terminal else None
        self.tasks: dict[str, TaskID] = {}

    def __call__(self, name: str, done: int, total: int | None) -> None:
        """So many bytes of a file are there."""
        if name not in self.tasks:
            self.tasks[name] = self.bar.add_task(name) if self.bar else TaskID(len(self.tasks))
            if not self.bar:
                start = f", from byte {done:,} on" if done else ""
                say(f"Downloading {name}{start}")
        if self.bar:
            self.bar.update(self.tasks[name], completed=done, total=total)
