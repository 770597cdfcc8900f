"""`flr`: every command a thin layer over a function that Python users can call too."""

from __future__ import annotations

import json
import logging
import shlex
import sys
import textwrap
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any, NoReturn

import click
import typer
from rich.logging import RichHandler

from flr import __version__
from flr import config as configs
from flr.cli import data, flower, portable, site
from flr.cli.audit import audit
from flr.cli.compare import compare
from flr.cli.demo import demo
from flr.cli.embed import embed
from flr.cli.models import evaluate, predict
from flr.cli.progress import RunProgress
from flr.cli.relabel import relabel
from flr.cli.reproduce import reproduce
from flr.cli.sweep import sweep
from flr.cli.terminal import STOPPED, PrintableFormatter, console, errors, hush, say
from flr.config.own_runs import in_run_folder
from flr.core import registry
from flr.core.combine import parts_of
from flr.core.errors import DataError, FlrError
from flr.core.plain_text import counted
from flr.engine.memory_allocator import keep_freed_memory
from flr.models import model_file
from flr.report.table import Table, to_rich
from flr.simulation.folders import own_folder

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
# The parts of `flr --help`: the three doors of the documentation, and what all of them need.
COMPARE, LABELS = "Compare methods", "Check my labels"
FEDERATION, LOOK = "Run a federation", "Look something up"
app.command(rich_help_panel=COMPARE)(demo)

KINDS = {"methods": "method", "models": "model", "datasets": "dataset", "partitions": "partition"}
KINDS |= {"noises": "noise", "aggregators": "aggregator", "attacks": "attack"}
KINDS |= {"backbones": "backbone", "optimizers": "optimizer", "schedules": "schedule"}
KINDS |= {"trackers": "tracker"}


def show_version(wanted: bool) -> None:
    """Prints it and ends."""
    if wanted:
        typer.echo(f"flr {__version__}")
        raise typer.Exit


@app.callback()
def flr(
    _version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=show_version, help="Print it and end."),
    ] = False,
) -> None:
    """Federated learning when labels are wrong: compare methods, find the wrong labels."""


ConfigFile = Annotated[Path, typer.Argument(help="An experiment as TOML.", metavar="CONFIG")]
_SET = "Change one setting, e.g. --set noise.floor=0.5. May be repeated."
Overrides = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help=_SET)]
Workers = Annotated[
    int | None, typer.Option(min=1, help="Worker processes; the numbers stay the same.")
]


Trust = Annotated[
    bool, typer.Option("--trust", help="Import the code that somebody else's run folder names.")
]


def read(config: Path, changes: list[str], trust: bool) -> configs.Config:
    """A config that the user has, or one in a run folder, which may be somebody else's."""
    if in_run_folder(config):
        configs.load_run(config.parent, trust=trust)
    return configs.load(config, changes)


@app.command(rich_help_panel=COMPARE)
def run(
    config: Annotated[
        Path | None, typer.Argument(help="An experiment as TOML.", metavar="CONFIG")
    ] = None,
    changes: Overrides = None,
    begun: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="RUN",
            help="Start from the weights of a finished run; by its config, if CONFIG is left out.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The run's folder (default: a new one under runs/).")
    ] = None,
    workers: Workers = None,
    trust: Trust = False,
) -> None:
    """Train as CONFIG says; writes a run folder with metrics, model, pictures and a report."""
    from flr.simulation import api

    overrides = [*(changes or []), *([f"workers={workers}"] if workers is not None else [])]
    if begun is not None:
        overrides.append(f"train.init={json.dumps(str(begun.absolute() / model_file.NAME))}")
    if config is None and begun is None:
        raise typer.BadParameter("give a CONFIG, or --from RUN")
    resolved = read(config or Path(begun or "", "config.toml"), overrides, trust)
    if resolved.bits == "portable":
        portable.restart()
    with own_folder(resolved) if out is None else nullcontext(out) as folder:
        say(f"Run folder: {folder}")
        for part in parts_of(resolved.build_method()):
            if part.traits.note:
                say(part.traits.note)
        train(folder, resolved, lambda progress: api.run(resolved, out=folder, on_round=progress))


@app.command(rich_help_panel=COMPARE)
def resume(
    folder: Annotated[Path, typer.Argument(help="A run folder.", metavar="RUN")],
    workers: Workers = None,
    device: Annotated[
        str | None, typer.Option(help="cpu, cuda, mps, or auto (default: as before).")
    ] = None,
    trust: Trust = False,
) -> None:
    """Go on with a run that was stopped, to the same bits as if it never had been."""
    from flr.simulation import api

    config = api.read_config(folder, trust=trust)
    if config.bits == "portable":
        portable.restart()

    def go_on(show: RunProgress) -> Any:
        return api.resume(folder, on_round=show, workers=workers, device=device, trust=trust)

    train(folder, config, go_on)


def train(folder: Path, config: configs.Config, start: Callable[[RunProgress], Any]) -> None:
    """Shows a run and its verdict; after Ctrl-C, how to go on."""
    from flr.report import html

    try:
        with RunProgress(config.label, config.rounds, console) as progress:
            done = start(progress)
    except KeyboardInterrupt:
        text = "Stopped before training began; nothing was written."
        if (folder / "config.toml").is_file():
            text = f"Stopped. To go on: flr resume {shlex.quote(str(folder))}"
        errors.print(text, soft_wrap=True)
        sys.exit(STOPPED)
    say(html.verdict(done.summary))
    for remark in done.summary.get("remarks", ()):
        console.print(remark, style="yellow", soft_wrap=True)
    say(f"Report: {done.folder / 'report.html'}")


for command in (compare, sweep, reproduce, predict, evaluate, embed):
    app.command(rich_help_panel=COMPARE)(command)
app.add_typer(data.app, name="data", rich_help_panel=COMPARE)
app.command(rich_help_panel=LABELS)(audit)
app.command(rich_help_panel=LABELS)(relabel)
app.add_typer(flower.app, name="flower", rich_help_panel=FEDERATION)
app.add_typer(site.app, name="site", rich_help_panel=FEDERATION)


@app.command("list", rich_help_panel=LOOK)
def list_entries(
    kind: Annotated[str, typer.Argument(help=", ".join(KINDS), metavar="KIND")],
    as_json: Annotated[bool, typer.Option("--json", help="An array of objects.")] = False,
) -> None:
    """What there is of a kind (methods, models, datasets ...): a name and a line each."""
    from flr.report import describe as describing

    if kind not in KINDS:
        raise typer.BadParameter(registry.unknown("KIND", kind, KINDS))
    entries = registry.entries(KINDS[kind]).values()
    if as_json:
        typer.echo(json.dumps([describing.facts(entry) for entry in entries], indent=2))
        return
    rows = [(e.name, e.summary + (f" ({e.year})" if e.year else "")) for e in entries]
    console.print(to_rich(Table(("name", "what it is"), rows, align="ll"), lines=False))
    console.print(f"\nMore: flr describe {next(iter(entries)).name}", style="dim")


@app.command(rich_help_panel=LOOK)
def describe(
    name: Annotated[str, typer.Argument(help="Anything `flr list` shows.", metavar="NAME")],
) -> None:
    """Equation, settings, cost, and what leaves and reaches a site."""
    from flr.report import describe as describing

    found = registry.find(name)
    if not found:
        names = [e.name for kind in registry.KINDS for e in registry.entries(kind).values()]
        raise typer.BadParameter(registry.unknown("NAME", name, names))
    width = min(console.width, 100)
    fill = textwrap.TextWrapper(width, initial_indent="  ", subsequent_indent="    ").fill
    for entry in found:
        console.print(f"{entry.title} ({entry.kind} {entry.name})", style="bold")
        if entry.paper:
            console.print(entry.paper, style="dim")
        about = [entry.summary, "", entry.doc] if entry.fixed else [entry.doc]
        typer.echo("\n" + describing.reflow("\n".join(about), width))
        for title, lines in describing.sections(entry):
            console.print(f"\n{title}", style="bold")
            typer.echo("\n".join(map(fill, lines)))


@app.command(rich_help_panel=LOOK)
def check(config: ConfigFile, changes: Overrides = None, trust: Trust = False) -> None:
    """Find what is wrong with CONFIG, its data and its split, without training."""
    from flr.scenario.truth import Truth
    from flr.simulation.build import check_fits, load_data, load_scenario

    resolved = read(config, changes or [], trust)
    dataset = load_data(resolved)
    scenario = load_scenario(resolved, dataset)
    check_fits(resolved, dataset, scenario)
    share = Truth.of(scenario, dataset).overall
    wrong = f"{100 * share:.1f} % wrong labels" if share else "no label made wrong"
    if not dataset.verified:
        wrong = "how many labels are wrong is not known"
    sites = [len(site) for site in scenario.sites]
    say(
        f"{config} is fine: {resolved.label}, {resolved.rounds} rounds on {dataset.name}, "
        f"{counted(len(sites), 'site')} with {min(sites)} to {max(sites)} samples, "
        f"{wrong}. Scenario {scenario.hash[:12]}."
    )


def main() -> None:
    """Runs a command; a user's mistake becomes one message and an exit code, never a traceback."""
    keep_freed_memory(for_all_threads=True)  # features are computed in threads
    handler = RichHandler(console=errors, show_time=False, show_path=False)
    handler.setFormatter(PrintableFormatter("%(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("flr").setLevel(logging.INFO)  # how far a long embedding has come
    try:
        code = app(standalone_mode=False)
        if code == STOPPED:
            errors.print(
                "Stopped. `flr sweep`, `flr reproduce` and `flr data get` go on when started again."
            )
        sys.stdout.flush()  # while what goes wrong can still be told
        sys.exit(code if isinstance(code, int) else 0)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except FlrError as error:
        fail(str(error), error.exit_code)
    except BrokenPipeError:  # whoever read what we print has seen enough
        hush()
    except UnicodeEncodeError as error:
        name = error.object[error.start : error.end].encode("utf-8", "backslashreplace").decode()
        text = f"Expected names in UTF-8; one has {name} in it. Rename the file or folder."
        fail(text, DataError.exit_code)
    except OSError as error:
        what, why = error.filename or "a file", error.strerror or error
        mend = "Check the path, its permissions and the free space."
        text = f"Expected to read or write {what}; the system says: {why}. {mend}"
        fail(text, DataError.exit_code)


def fail(message: str, code: int) -> NoReturn:
    """Ends with one message in red."""
    errors.print(f"error: {message}", style="red", soft_wrap=True)
    try:
        sys.stdout.flush()
    except OSError:
        hush()  # or Python would try again, and complain
    sys.exit(code)


if __name__ == "__main__":
    main()
