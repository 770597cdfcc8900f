"""`flr relabel`: what a person has decided of the labels that looked wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flr.cli.terminal import console, say


def relabel(
    labels: Annotated[Path, typer.Option(help="Table with names and labels.")],
    corrections: Annotated[
        list[Path], typer.Option(help="What the page has saved; may be repeated.")
    ],
    out: Annotated[Path, typer.Option(help="A new file; its log is OUT.log.csv.")],
    label: Annotated[str | None, typer.Option(help="Column of labels, as for audit.")] = None,
    name: Annotated[str | None, typer.Option(help="Column of names, as for audit.")] = None,
) -> None:
    """Write new labels: those accepted in corrections.csv, and all others as they are."""
    from flr.audit import relabel as relabelling
    from flr.audit.labels_file import some

    done = relabelling.relabel(labels, corrections, out, name=name, label=label)
    counts = ", ".join(f"{decision} {count:,}" for decision, count in done.decisions.items())
    say(f"{done.changed:,} of {done.rows:,} labels changed ({counts}): {done.path}")
    say(f"Every decision: {done.log}")
    if done.new_labels:
        console.print(f"Check: no sample had these labels before: {some(done.new_labels)}")
