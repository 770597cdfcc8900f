"""`flr site`: for the people at a site of a federation, what has left it and what may."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from textwrap import fill
from typing import Annotated

import typer

from flr.cli.flower import needing_flower
from flr.cli.site_agent import audit, serve, status
from flr.cli.terminal import console, say
from flr.config import policy as policies
from flr.core.arrays import write_atomically
from flr.core.errors import DataError
from flr.core.plain_text import plain
from flr.flower import ledger as ledgers
from flr.flower.ledger import Line
from flr.report.table import Table, to_rich

app = typer.Typer(
    help="For the people at a site: its agent, what has left it, and what may leave.",
    no_args_is_help=True,
)
for command in (serve, status, audit):
    app.command()(command)

StateDir = Annotated[Path, typer.Argument(help="A node's state-dir.", metavar="FOLDER")]


@app.command()
def ledger(folder: StateDir) -> None:
    """What has left the site, by run; checks that all of it was declared and no line is missing."""
    found = ledgers.read(folder)
    for site, run in dict.fromkeys((line.site, line.run) for line in found.lines):
        show_run([line for line in found.lines if (line.site, line.run) == (site, run)])
    if found.torn:
        places = ", ".join(map(str, found.torn))
        say(f"Torn by a kill or a power cut, before anything left: line {places} of the file.")
    if found.problems:
        raise DataError(
            f"Expected a ledger as flr has written it, with nothing undeclared; of "
            f"{folder / ledgers.NAME}:\n  " + "\n  ".join(found.problems) + "\nCompare it with a "
            "copy, and ask who can write there. Until you know, start no node from this folder."
        )
    size = sum(line.bytes for line in found.lines)
    say(
        f"{len(found.lines)} replies, {size:,} bytes. Nothing undeclared has left, and no line "
        "was\nchanged or removed. The last line's digest; note it elsewhere, and all before\n"
        f"it is fixed:\n{found.lines[-1].digest if found.lines else '-'}"
    )


@app.command()
def policy(folder: StateDir) -> None:
    """Write an example policy.toml into FOLDER; one that is there is checked and shown."""
    path = folder / policies.NAME
    if path.exists():
        agreed = policies.load(path)
        say(f"{path} is fine. The site agrees to:")
        for key, value in agreed:
            listed = "all" if value is None else value
            listed = ", ".join(value) or "none" if isinstance(value, tuple) else listed
            say(fill(f"{key}: {listed}", 80, initial_indent="  ", subsequent_indent="    "))
        return
    write_atomically(path, policies.example(), sync=True)
    say(f"{path} is an example: change it as you like, and run this again to check it.")
    say("A node with this state-dir keeps to it from the next message on.")


@app.command()
def states(folder: StateDir) -> None:
    """Which run each state in FOLDER belongs to, since when, and how much of the disk it takes."""
    with needing_flower():
        from flr.flower import site_data
    found = [
        (path, site_data.read(path))
        for path in sorted(folder.glob("*/*"))
        if (path / site_data.RECORD).exists()
    ]
    if not found:
        raise DataError(
            f"Expected the state-dir of a node at {folder}; no run has left a state there. Give "
            "the `state-dir` of its node config."
        )
    heads = ("run", "site", "method", "rounds", "began", "last task (UTC)", "kB")
    rows = []
    for path, record in sorted(found, key=lambda each: each[1].began if each[1] else ""):
        files = [file.stat() for file in path.rglob("*") if file.is_file()]
        last = datetime.fromtimestamp(max(file.st_mtime for file in files), UTC)
        size = f"{sum(file.st_size for file in files) / 1000:,.0f}"
        known = (path.name, "damaged", "", "")
        if record is not None:
            known = (record.site, record.method, f"{record.rounds}", record.began[:10])
        when = (known[3], f"{last:%Y-%m-%d %H:%M}")
        rows.append((path.parent.name, *(plain(cell) for cell in known[:3]), *when, size))
    console.print(to_rich(Table(heads, rows, align="lllrllr")))
    say("A run that nobody will resume is forgotten with its folder, FOLDER/RUN.")


def show_run(lines: list[Line]) -> None:
    """A table of what left for one run, and what its method declares."""
    first = lines[0]
    method = next((line.method for line in lines if line.method), "unknown")
    say(f'site "{first.site}", run {first.run or "unknown"}, method {plain(method)}')
    heads = ("no", "when (UTC)", "asked", "round", "what left", "bytes", "sha256")
    rows = [
        (
            str(line.number),
            plain(line.time)[:19].replace("T", " "),
            plain(line.asked),
            str(line.round or ""),
            in_words(line),
            f"{line.bytes:,}",
            line.sha256[:8],
        )
        for line in lines
    ]
    console.print(to_rich(Table(heads, rows, align="rllrlrl")))
    said = {key for line in lines for key in line.note}
    say(f"  note: {', '.join(word for key, word in ledgers.NOTE.items() if key in said)}")
    declared = {name: form for line in lines for name, form in line.declared.items()}
    for name, form in declared.items():
        shape = " x ".join(map(str, form.shape)) or "one number"
        say(f"  {plain(name)}: {plain(form.what)} ({shape}, {plain(form.dtype)})")
    say("")


def in_words(line: Line) -> str:
    """What one reply held; weights and note are one thing each, however much is in them."""
    if "problem" in line.note:
        return f"{ledgers.NOTE['problem']}: {plain(line.note['problem'])}"
    odd = line.undeclared()
    words = [*(["weights"] if line.weights else []), *(n for n in line.arrays if n not in odd)]
    words += ["note"] if line.note else []
    return ", ".join(map(plain, [*words, *(f"UNDECLARED {name}" for name in odd)]))
