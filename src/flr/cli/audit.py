"""`flr audit` and `flr relabel`: which labels look wrong, and what a person has decided of them."""

from __future__ import annotations

import textwrap
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from flr.cli.screen import console
from flr.errors import DataError

if TYPE_CHECKING:
    from flr.audit.findings import Audit
    from flr.audit.scores import Scores
    from flr.audit.simulated import Simulation
    from flr.audit.site import SiteFiles


MANY = 20  # clients whose pages are written only on request


class Scorer(StrEnum):
    """Who says how probable it is that a label is wrong."""

    FLR = "flr"
    CLEANLAB = "cleanlab"


def audit(
    run: Annotated[
        Path | None, typer.Argument(help="Folder of a simulated run.", metavar="RUN")
    ] = None,
    client: Annotated[
        list[int] | None, typer.Option(min=0, help="Of RUN; may be repeated (default: all).")
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help=f"All clients of RUN, also more than {MANY}.")
    ] = False,
    data: Annotated[
        Path | None, typer.Option(help="A site's own npz, CSV or image folder.")
    ] = None,
    labels: Annotated[
        Path | None, typer.Option(help="CSV with name and label, in place of those in DATA.")
    ] = None,
    model: Annotated[
        Path | None, typer.Option(help="model.safetensors of the federation, for --data.")
    ] = None,
    state: Annotated[
        Path | None, typer.Option(help="The node's state-dir with the site's FLR tables.")
    ] = None,
    label: Annotated[str, typer.Option(help="The label column of a CSV file.")] = "label",
    size: Annotated[int | None, typer.Option(min=1, help="Scale images to so many pixels.")] = None,
    trust: Annotated[
        bool, typer.Option("--trust", help="Import the code that the model file names.")
    ] = False,
    share: Annotated[
        bool, typer.Option("--share", help="Write share.json: the estimated rate, no more.")
    ] = False,
    scorer: Annotated[Scorer, typer.Option(help="cleanlab needs its extra.")] = Scorer.FLR,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the result (default: RUN/audit, or audit).")
    ] = None,
) -> None:
    """Rank the labels that look wrong, after a RUN or at a site (--data). Sends nothing."""
    if out is not None and out.suffix == ".html":
        raise typer.BadParameter("--out is a folder; the page is audit.html in it. Use --out audit")
    if (run is None) == (data is None):
        raise typer.BadParameter(
            "give either RUN or, at a site, --data DATA --model model.safetensors"
        )
    if run is not None:
        if labels or model or state or size or trust or share or label != "label":
            raise typer.BadParameter("RUN takes --client, --all, --scorer and --out only")
        if client and every:
            raise typer.BadParameter("choose --client or --all")
        audit_run(run, client or [], every, out or run / "audit", scorer.value)
        return
    from flr.audit.site import SiteFiles

    if client or every:
        raise typer.BadParameter("--client and --all go with RUN")
    if data is None or model is None:
        raise typer.BadParameter("--data needs --model model.safetensors")
    files = SiteFiles(data, model, labels, state, label, size, trust)
    audit_site(files, out or Path("audit"), scorer.value, share)


def relabel(
    labels: Annotated[Path, typer.Option(help="CSV with name and label.")],
    corrections: Annotated[Path, typer.Option(help="What the page has saved.")],
    out: Annotated[Path, typer.Option(help="A new file; its log is OUT.log.csv.")],
) -> None:
    """Write new labels: those accepted in corrections.csv, and all others as they are."""
    from flr.audit import relabel as relabelling
    from flr.audit.labels_file import some

    done = relabelling.relabel(labels, corrections, out)
    counts = ", ".join(f"{decision} {count:,}" for decision, count in done.decisions.items())
    point(f"{done.changed:,} of {done.rows:,} labels changed ({counts}): {done.path}")
    point(f"Every decision: {done.log}")
    if done.new_labels:
        say(f"Check: no sample had these labels before: {some(done.new_labels)}")


def audit_run(folder: Path, clients: list[int], every: bool, out: Path, scorer: str) -> None:
    """The clients of a run, one after another; each has a folder of its own."""
    from flr.audit.case import PAGE, examine
    from flr.audit.findings import scores_of
    from flr.audit.simulated import open_run
    from flr.report import audit_truth

    with console.status("Reading the run"):
        run = open_run(folder)
    found: dict[int, Audit] = {}
    scores: dict[int, Scores] = {}
    chosen = wanted(run, clients, every)
    for client in chosen:
        with console.status(f"Client {client} of {len(run)}"):
            case = run.case(client)
            scores[client] = scores_of(case.evidence, scorer)
            found[client] = examine(case, out / str(client), scorer, scores[client])
    show_clients(found)
    first = chosen[0]
    where = out / (str(first) if len(chosen) == 1 else "CLIENT") / PAGE
    point(f"To review: {where}")
    say("Found without any clean label; nothing was sent.", dim=True)
    rates = {client: one.rate for client, one in found.items()}
    truth = audit_truth.report(folder, scores, rates, out=out)
    if truth is not None:
        say(beside_the_truth(truth["all"], out / audit_truth.NAME))


def beside_the_truth(measured: dict[str, Any], path: Path) -> str:
    """What a simulation knows, and a real site never does."""
    precision = measured["average_precision"]
    if precision is None:
        return f"In truth none of these labels is wrong; more in {path}"
    return (
        f"In truth {100 * measured['rate']:.1f} % of these labels are wrong; average precision of "
        f"the list {precision:.3f}, by chance {measured['rate']:.3f}; more in {path}"
    )


def wanted(run: Simulation, clients: list[int], every: bool) -> list[int]:
    """All clients, or those asked for."""
    wrong = [client for client in clients if client >= len(run)]
    if wrong:
        raise DataError(
            f"Expected clients from 0 to {len(run) - 1}, as {run.folder} has; got {wrong[0]}. "
            "Change --client."
        )
    if not clients and not every and len(run) > MANY:
        raise DataError(
            f"Expected to know whose labels to audit: {run.folder} has {len(run):,} clients, and "
            "each gets a page of its own. Say --client K for one of them, or --all."
        )
    return sorted(set(clients)) or list(range(len(run)))


def audit_site(files: SiteFiles, out: Path, scorer: str, shared: bool) -> None:
    """The labels of this site, with all that its people should know before they begin."""
    from flr.audit import case
    from flr.audit.site import open_site

    with console.status("Reading data, model and state"):
        opened = open_site(files)
    with console.status(f"Auditing {len(opened.evidence):,} labels"):
        found = case.examine(opened, out, scorer)
    say(found.verdict)
    show_pairs(found)
    say(found.source)
    say("Not checked:")
    for sentence in found.unchecked:
        point(textwrap.fill(sentence, console.width, initial_indent="- ", subsequent_indent="  "))
    point(f"To review: {out / case.PAGE}")
    kept = files.labels or out / case.LABELS
    point("With the corrections.csv that the page saves:")
    point(f"flr relabel --labels {kept} --corrections corrections.csv --out new.csv")
    if shared:
        point(f"\n{out / case.SHARE}, for you to pass on or not; flr sends nothing:")
        point(case.share(found, out).rstrip())


def show_clients(found: dict[int, Audit]) -> None:
    """A line for each client."""
    table = Table(box=None, pad_edge=False)
    for name in ("client", "samples", "wrong labels", "90 % interval", "suspects"):
        table.add_column(name, justify="right")
    for client, one in found.items():
        rate = one.rate
        suspects = sum(suspect.probability >= 0.5 for suspect in one.suspects)
        table.add_row(
            str(client),
            f"{one.samples:,}",
            f"{100 * rate.estimate:.1f} %",
            f"{100 * rate.low:.1f} to {100 * rate.high:.1f} %",
            f"{suspects:,}",
        )
    console.print(table)


def show_pairs(found: Audit, most: int = 5) -> None:
    """The most frequent confusions."""
    from flr.audit.labels_file import shown

    if not found.pairs:
        return
    table = Table(box=None, pad_edge=False)
    table.add_column("labelled", overflow="ellipsis", no_wrap=True)
    table.add_column("probably", overflow="ellipsis", no_wrap=True)
    table.add_column("labels", justify="right", no_wrap=True)
    for pair in found.pairs[:most]:
        texts = (Text(shown(name)) for name in (pair.given, pair.likely))
        table.add_row(*texts, f"about {pair.count:,.0f}")
    console.print(table)


def say(words: str, dim: bool = False) -> None:
    """Sentences, wrapped; labels and names in them are text, never markup."""
    console.print(words, style="dim" if dim else None, markup=False)


def point(words: str) -> None:
    """A path or a command: on one line, to be copied."""
    console.print(words, soft_wrap=True, markup=False)
