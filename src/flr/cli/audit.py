"""`flr audit`: which labels look wrong, of your own data or after a run."""

from __future__ import annotations

import shlex
import textwrap
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flr.cli.progress import Steps
from flr.cli.terminal import console, say
from flr.core.errors import DataError
from flr.report.table import Table, to_rich

if TYPE_CHECKING:
    from flr.audit.findings import Audit
    from flr.audit.run_clients import Simulation
    from flr.audit.scores import Scores
    from flr.audit.site_audit import SiteAudit
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
    what: Annotated[
        Path | None,
        typer.Argument(help="Images, a table, npz, texts; or a simulated run.", metavar="DATA|RUN"),
    ] = None,
    table: Annotated[
        Path | None, typer.Argument(help="Table of names and labels of DATA.", metavar="[LABELS]")
    ] = None,
    client: Annotated[
        list[int] | None, typer.Option(min=0, help="Of RUN; may be repeated (default: all).")
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help=f"All clients of RUN, also more than {MANY}.")
    ] = False,
    data: Annotated[Path | None, typer.Option(help="The same as the first argument.")] = None,
    labels: Annotated[Path | None, typer.Option(help="The same as the second argument.")] = None,
    label: Annotated[
        str | None, typer.Option(help="Column of labels (default: as it is usually called).")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Column of names (default: as it is usually called).")
    ] = None,
    text: Annotated[
        str | None, typer.Option(help="Column of texts, if DATA is a table of texts.")
    ] = None,
    model: Annotated[
        Path | None, typer.Option(help="model.safetensors of a federation, for its opinion.")
    ] = None,
    state: Annotated[
        Path | None, typer.Option(help="The node's state-dir, with what training has said.")
    ] = None,
    size: Annotated[
        int | None, typer.Option(min=1, help="Scale images to so many pixels, for --model.")
    ] = None,
    trust: Annotated[
        bool, typer.Option("--trust", help="Import the code that the run or model file names.")
    ] = False,
    share: Annotated[
        bool, typer.Option("--share", help="Write share.json: the estimated rate, no more.")
    ] = False,
    scorer: Annotated[Scorer, typer.Option(help="cleanlab needs its extra.")] = Scorer.FLR,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the result (default: a new one, audit-NAME).")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an earlier audit in --out.")
    ] = False,
) -> None:
    """Rank the labels that look wrong: of your own DATA, or after a RUN. Sends nothing."""
    from flr.audit.run_clients import is_run

    if out is not None and out.suffix == ".html":
        raise typer.BadParameter("--out is a folder; the page is audit.html in it. Use --out audit")
    if what is not None and data is not None:
        raise typer.BadParameter("give the data once: as the first argument or as --data")
    if table is not None and labels is not None:
        raise typer.BadParameter("give the labels once: as the second argument or as --labels")
    target, labels = what or data, table or labels
    if target is None:
        raise typer.BadParameter("say what to audit: flr audit scans/ labels.csv")
    if data is None and is_run(target):
        if labels or model or state or size or share or label or name or text:
            raise typer.BadParameter(
                "RUN takes --client, --all, --scorer, --trust, --overwrite and --out only"
            )
        if client and every:
            raise typer.BadParameter("choose --client or --all")
        audit_run(RunClients(target, client or [], every, trust), out, scorer.value, overwrite)
        return
    if client or every:
        raise typer.BadParameter(f"--client and --all go with a run; {target} is none")
    if model is None and (state or size):
        raise typer.BadParameter("--state and --size go with --model")
    from flr.audit.site_files import SiteFiles

    files = SiteFiles(target, model, labels, state, label, size, trust, name, text)
    audit_site(files, out, scorer.value, share, overwrite)


def audit_run(asked: RunClients, out: Path | None, scorer: str, overwrite: bool) -> None:
    """The clients of a run, one after another; each has a folder of its own."""
    from flr.audit.findings import scores_of
    from flr.audit.run_clients import open_run
    from flr.audit.site_audit import PAGE, refuse_folder
    from flr.report import audit_truth
    from flr.simulation.folders import first_free

    with console.status("Reading the run"):
        run = open_run(asked.folder, trust=asked.trust)
    out = out or first_free(asked.folder / "audit")
    refuse_folder(out, overwrite)
    found, scores, rows = {}, {}, []
    for client in asked.wanted(run):
        with Steps(console) as steps:
            site = run.site_audit(client, steps.of(f"Client {client}"))
        scores[client] = scores_of(site.evidence, scorer)
        found[client] = write_one(site, out / str(client), scorer, scores[client])
        rows.append(row_of(str(client), found[client], scores[client]))
    with Steps(console) as steps:
        held_out = None if asked.clients else run.held_out_audit(steps.of("Test part"))
    if held_out is not None:
        judged = scores_of(held_out.evidence, scorer)
        one = write_one(held_out, out / "test", scorer, judged)
        rows.append(row_of("test", one, judged))
    heads = ("client", "samples", "wrong labels", "90 % interval", "suspects")
    console.print(to_rich(Table(heads, rows, align="r"), lines=False))
    say(f"To review: {out / (rows[0][0] if len(rows) == 1 else 'CLIENT') / PAGE}")
    wrap("Found without any clean label; nothing was sent.", style="dim")
    rates = {client: one.rate for client, one in found.items()}
    truth = audit_truth.report(asked.folder, scores, rates, out=out)
    if truth is not None:
        wrap(beside_the_truth(truth["all"], out / audit_truth.NAME))


def write_one(site: SiteAudit, folder: Path, scorer: str, scores: Scores) -> Audit:
    """The folder of one client, in place of what an earlier audit has left there."""
    from flr.audit.site_audit import clear, examine

    clear(folder)
    return examine(site, folder, scorer, scores)


def row_of(name: str, found: Audit, scores: Scores) -> tuple[str, ...]:
    """One line of the table on the terminal."""
    low, high = 100 * found.rate.low, 100 * found.rate.high
    wrong, between = f"{100 * found.rate.estimate:.1f} %", f"{low:.1f} to {high:.1f} %"
    return name, f"{found.samples:,}", wrong, between, f"{int(scores.issue.sum()):,}"


def beside_the_truth(measured: dict[str, Any], path: Path) -> str:
    """What a simulation knows, and a real site never does."""
    precision = measured["average_precision"]
    return (
        f"In truth {100 * measured['rate']:.1f} % of these labels are wrong; average precision of "
        f"the list {precision:.3f}, by chance {measured['rate']:.3f}; more in {path}"
    )


def audit_site(
    files: SiteFiles, out: Path | None, scorer: str, shared: bool, overwrite: bool
) -> None:
    """The labels of this site, with all that its people should know before they begin."""
    from flr.audit import site_audit
    from flr.audit.site_files import open_site

    folder = out or free_folder(files.data)
    site_audit.refuse_folder(folder, overwrite, files.data)
    with Steps(console) as steps:
        opened = open_site(files, steps)
        steps(f"Judging {len(opened.evidence):,} labels", 0.0)
        site_audit.clear(folder)
        found = site_audit.examine(opened, folder, scorer)
    if opened.table and opened.table.said:
        wrap(opened.table.said)
    wrap(found.verdict)
    show_pairs(found)
    wrap(found.source)
    show_other_issues(opened)
    say("Not checked:")
    for sentence in found.unchecked:
        say(textwrap.fill(sentence, console.width, initial_indent="- ", subsequent_indent="  "))
    say(f"To review: {folder / site_audit.PAGE}")
    say("With the corrections.csv that the page saves:")
    say(relabel_command(files, opened, folder))
    if shared:
        say(f"\n{folder / site_audit.SHARE}, for you to pass on or not; flr sends nothing:")
        say(site_audit.share(found, folder).rstrip())


def free_folder(data: Path) -> Path:
    """audit-NAME in this folder, with a number if there is one; never inside the data."""
    from flr.simulation.folders import first_free

    here, where = Path.cwd(), data.resolve()
    inside = where.is_dir() and here.is_relative_to(where)
    return first_free((where.parent if inside else Path()) / f"audit-{where.stem}")


def relabel_command(files: SiteFiles, opened: SiteAudit, folder: Path) -> str:
    """What to type when the page has saved its decisions."""
    from flr.audit.labels_file import CLASSES, NAMES
    from flr.audit.site_audit import LABELS
    from flr.data.readers import sheets

    table, name, label = folder / LABELS, None, None
    if opened.table is not None:
        table, name, label = opened.table.sheet.path, opened.table.called, opened.table.label
    elif files.data.suffix.lower() in sheets.SUFFIXES:
        table, name, label = files.data, files.name, files.label
    unusual = (
        ("--name", None if name and name.casefold() in NAMES else name),
        ("--label", None if label and label.casefold() in CLASSES else label),
    )
    columns = "".join(f" {option} {shlex.quote(title)}" for option, title in unusual if title)
    return (
        f"flr relabel --labels {shlex.quote(str(table))} --corrections corrections.csv "
        f"--out new{table.suffix}{columns}"
    )


def show_other_issues(opened: SiteAudit) -> None:
    """How many there are of each kind."""
    from collections import Counter

    from flr.audit.site_audit import ISSUES

    counts = Counter(kind for kind, *_ in opened.other_issues)
    if counts:
        listed = ", ".join(f"{kind.replace('_', ' ')} {n:,}" for kind, n in counts.items())
        wrap(f"Besides labels: {listed} ({ISSUES}).")


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
