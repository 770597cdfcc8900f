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

from flr import registry
from flr.cli.progress import WithBar
from flr.cli.screen import console
from flr.data import places
from flr.errors import DataError

app = typer.Typer(help="Data sets of others: get them.", no_args_is_help=True)

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

    if name not in (*download.SOURCES, ON_REQUEST):
        names = [*download.SOURCES, ON_REQUEST]
        raise typer.BadParameter(registry.unknown("NAME", name, names))
    folder = data_folder(name, to)
    if name == ON_REQUEST:
        found = explain_request(folder)
        console.print(f"{name} is already there: {found}", soft_wrap=True, markup=False)
        return
    with DownloadProgress(console) as progress:
        got = download.get(name, folder, base, progress)
    news = "is there now" if got.new else "is already there"
    words = [f"{name} {news}: {got.path}"]
    if got.unchecked:
        words.append(
            f"No checksum of {', '.join(got.unchecked)} is known: it was read instead, and its "
            "clean_label is compared with the data set's labels whenever it is used."
        )
    if got.archive is not None:
        words.append(f"{got.archive} is not needed any more.")
    if os.environ.get(places.VARIABLE, "").strip() == "":
        words.append(f"So that flr finds it: export {places.VARIABLE}={folder}")
    console.print("\n".join(words), soft_wrap=True, markup=False)


def data_folder(name: str, to: Path | None) -> Path:
    """Where data sets go: as the user says now, or as the environment says."""
    if to is not None:
        return to.absolute()
    known = os.environ.get(places.VARIABLE, "").strip()
    if known:
        return Path(known).expanduser().absolute()
    raise DataError(
        f"Expected to be told where data sets go; neither --to nor {places.VARIABLE} is set. "
        f"Choose a folder: flr data get {name} --to DIR, and set {places.VARIABLE} to it, so that "
        "flr finds what is there."
    )


def explain_request(folder: Path) -> Path:
    """The place of Clothing1M, or what to do: its authors give it to those who ask them."""
    place = folder / ON_REQUEST
    if (place / "noisy_train_key_list.txt").is_file():
        return place
    raise DataError(
        f"Expected Clothing1M in {place}; it is not there and cannot be downloaded: its authors "
        "give it to those who ask, for research.\n"
        "  1. Ask them, as https://github.com/Cysu/noisy_label says; they send a link.\n"
        f"  2. Put what they give into {place}, so that {place / 'noisy_train_key_list.txt'}, the "
        f"other lists and {place / 'images'} are there.\n"
        f"  3. Unpack the archives 0.tar ... 9.tar inside {place / 'images'}, so that there are "
        "folders 0 ... 9.\n"
        f'Then set {places.VARIABLE}={folder} and use [data] name = "{ON_REQUEST}".'
    )


class DownloadProgress(WithBar):
    """Shows bytes on a terminal, and a line for each file elsewhere."""

    def __init__(self, console: Console) -> None:
        self.console = console
        columns = (
            TextColumn("{task.description}"),
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
                self.console.print(f"Downloading {name}{start}", soft_wrap=True, markup=False)
        if self.bar:
            self.bar.update(self.tasks[name], completed=done, total=total)
