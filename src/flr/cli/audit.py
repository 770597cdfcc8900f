"""`flr audit` and `flr relabel`: which labels look wrong, and what a person has decided of them."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flr.cli.terminal import console, say
from flr.core.errors import DataError
from flr.report.table import Table, to_rich

if TYPE_CHECKING:
    from flr.audit.findings import Audit
    from flr.audit.run_clients import Simulation
    from flr.audit.site_files import SiteFiles

MANY = 20  # clients whose pages are written only on request


class Scorer(StrEnum):
    """Who says how probable it is that a label is wrong."""

    FLR = "flr"
    CLEANLAB = "cleanlab"


@dataclass(frozen=True)
class RunClients:
    """Whose labels of a simulated run to audit: the clients asked for, or all."""

    folder: Path
    clients: list[int]
    every: bool  # also if they are many
    trust: bool  # of code that the run names

    def wanted(self, run: Simulation) -> list[int]:
        """Their numbers."""
        wrong = [client for client in self.clients if client >= len(run)]
        if wrong:
            raise DataError(
                f"Expected clients from 0 to {len(run) - 1}, as {run.folder} has; got {wrong[0]}. "
                "Change --client."
            )
        if not self.clients and not self.every and len(run) > MANY:
            raise DataError(
                f"Expected to know whose labels to audit: {run.folder} has {len(run):,} clients, "
                "and each gets a page of its own. Say --client K for one of them, or --all."
            )
        return sorted(set(self.clients)) or list(range(len(run)))


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
        Path | None,
        typer.Option(help="The node's state-dir, kept from training."),
    ] = None,
    label: Annotated[str, typer.Option(help="The label column of a CSV file.")] = "label",
    size: Annotated[int | None, typer.Option(min=1, help="Scale images to so many pixels.")] = None,
    trust: Annotated[
        bool, typer.Option("--trust", help="Import the code that the run or model file names.")
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
    if run is not None and data is None:
        if labels or model or state or size or share or label != "label":
            raise typer.BadParameter("RUN takes --client, --all, --scorer, --trust and --out only")
        if client and every:
            raise typer.BadParameter("choose --client or --all")
        audit_run(RunClients(run, client or [], every, trust), out or run / "audit", scorer.value)
    elif run is None and data is not None:
        if client or every:
            raise typer.BadParameter("--client and --all go with RUN")
        if model is None:
            raise typer.BadParameter("--data needs --model model.safetensors")
        from flr.audit.site_files import SiteFiles

        files = SiteFiles(data, model, labels, state, label, size, trust)
        audit_site(files, out or Path("audit"), scorer.value, share)
    else:
        raise typer.BadParameter(
            "give either RUN or, at a site, --data DATA --model model.safetensors"
        )


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
    say(f"{done.changed:,} of {done.rows:,} labels changed ({counts}): {done.path}")
    say(f"Every decision: {done.log}")
    if done.new_labels:
        wrap(f"Check: no sample had these labels before: {some(done.new_labels)}")


def audit_run(asked: RunClients, out: Path, scorer: str) -> None:
    """The clients of a run, one after another; each has a folder of its own."""
    from flr.audit.findings import scores_of
    from flr.audit.run_clients import open_run
    from flr.audit.site_audit import PAGE, examine
    from flr.report import audit_truth

    with console.status("Reading the run"):
        run = open_run(asked.folder, trust=asked.trust)
    found, scores, rows = {}, {}, []
    for client in asked.wanted(run):
        with console.status(f"Client {client} of {len(run)}"):
            site = run.site_audit(client)
            scores[client] = scores_of(site.evidence, scorer)
            one = found[client] = examine(site, out / str(client), scorer, scores[client])
        low, high = 100 * one.rate.low, 100 * one.rate.high
        suspects = sum(suspect.probability >= 0.5 for suspect in one.suspects)
        wrong, between = f"{100 * one.rate.estimate:.1f} %", f"{low:.1f} to {high:.1f} %"
        rows.append((str(client), f"{one.samples:,}", wrong, between, f"{suspects:,}"))
    heads = ("client", "samples", "wrong labels", "90 % interval", "suspects")
    console.print(to_rich(Table(heads, rows, align="r"), lines=False))
    say(f"To review: {out / (rows[0][0] if len(rows) == 1 else 'CLIENT') / PAGE}")
    wrap("Found without any clean label; nothing was sent.", style="dim")
    rates = {client: one.rate for client, one in found.items()}
    truth = audit_truth.report(asked.folder, scores, rates, out=out)
    if truth is not None:
        wrap(beside_the_truth(truth["all"], out / audit_truth.NAME))


def beside_the_truth(measured: dict[str, Any], path: Path) -> str:
    """What a simulation knows, and a real site never does."""
    precision = measured["average_precision"]
    if precision is None:
        return f"No label was made wrong in this run, so there is no truth to compare with; {path}"
    return (
        f"In truth {100 * measured['rate']:.1f} % of these labels are wrong; average precision of "
        f"the list {precision:.3f}, by chance {measured['rate']:.3f}; more in {path}"
    )


def audit_site(files: SiteFiles, out: Path, scorer: str, shared: bool) -> None:
    """The labels of this site, with all that its people should know before they begin."""
    from flr.audit import site_audit
    from flr.audit.site_files import open_site

    with console.status("Reading data, model and state"):
        opened = open_site(files)
    with console.status(f"Auditing {len(opened.evidence):,} labels"):
        found = site_audit.examine(opened, out, scorer)
    wrap(found.verdict)
    show_pairs(found)
    wrap(found.source)
    say("Not checked:")
    for sentence in found.unchecked:
        say(textwrap.fill(sentence, console.width, initial_indent="- ", subsequent_indent="  "))
    say(f"To review: {out / site_audit.PAGE}")
    kept = files.labels or out / site_audit.LABELS
    say("With the corrections.csv that the page saves:")
    say(f"flr relabel --labels {kept} --corrections corrections.csv --out new.csv")
    if shared:
        say(f"\n{out / site_audit.SHARE}, for you to pass on or not; flr sends nothing:")
        say(site_audit.share(found, out).rstrip())


def show_pairs(found: Audit, most: int = 5) -> None:
    """The most frequent confusions."""
    from flr.audit.labels_file import shown

    if found.pairs:
        pairs = found.pairs[:most]
        rows = [(shown(p.given), shown(p.likely), f"about {p.count:,.0f}") for p in pairs]
        table = Table(("labelled", "probably", "labels"), rows, align="ll")
        console.print(to_rich(table, lines=False))


def wrap(text: str, style: str | None = None) -> None:
    """Sentences, wrapped; labels and names in them are text, never markup."""
    console.print(text, style=style)
