"""`flr flower`: from a first try to a federation of your own, on Flower."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from flr.cli.terminal import STOPPED, say
from flr.core.errors import ConfigError
from flr.core.plain_text import counted
from flr.simulation.folders import first_free

app = typer.Typer(
    help="Make a Flower app, check it, or try a federation out on this machine.",
    no_args_is_help=True,
)

AppFolder = Annotated[Path, typer.Argument(help="The folder of a Flower app.", metavar="DIR")]


@app.command()
def init(
    folder: AppFolder,
    bare: Annotated[
        bool, typer.Option("--bare", help="A plain app with a loop of its own and LabelMixture.")
    ] = False,
) -> None:
    """Write a complete Flower app into DIR, a new or empty folder."""
    with needing_flower():
        from flr.flower.new_app import write_app
    made = write_app(folder, bare=bare)
    if bare:
        say(f"{made} is a plain Flower app.")
        say("Its README.md says what a site keeps, and what to switch off first.\nTry it:")
        _say_run(folder, 3)
        return
    say(f"{made} is a Flower app.")
    say("Its README.md has all commands, and what to switch off in Flower before them.\nThe first:")
    say(f"  flr flower check {folder}")
    _say_run(folder, 100)


def _say_run(folder: Path, sites: int) -> None:
    """In two lines that a shell takes as one command, so that a terminal shows them whole."""
    say(f"  flwr run {folder} --stream --federation-config \\")
    say(f"    'num-supernodes={sites} client-resources-num-cpus=1'")


@app.command()
def check(
    folder: Annotated[
        Path | None, typer.Argument(help="The folder of a Flower app.", metavar="DIR")
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--run-config",
            "-c",
            metavar="CHANGES",
            help="As for `flwr run`: 'key=value ...' (may be repeated), or a TOML file.",
        ),
    ] = None,
    superlink: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Also ask the SuperLink at the sites' address."),
    ] = None,
    root_certificates: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The authority that vouches for it.")
    ] = None,
) -> None:
    """Find what is wrong with the app in DIR, its data and its split, before a node is touched.

    With --superlink also, or only, what the SuperLink lets strangers do, and this machine's clock.
    """
    with needing_flower():
        from flr.flower.check_app import check_app
        from flr.flower.probe import require_safe
    if folder is None and superlink is None:
        raise ConfigError("Expected the folder of an app, or --superlink HOST:PORT. Give one.")
    if folder is not None:
        say(f"{folder} is fine: {check_app(folder, changes or [])}.")
    if superlink is not None:
        require_safe(superlink, root_certificates)
        say(f"{superlink} lets in SuperNodes only, and this machine's clock agrees with its clock.")


@app.command()
def up(
    sites: Annotated[int, typer.Option(min=1, help="How many sites, each a SuperNode.")] = 3,
    rounds: Annotated[int, typer.Option(min=1, help="How many rounds.")] = 5,
    method: Annotated[str, typer.Option(help="`flr list methods` names them.")] = "flr",
    secure: Annotated[
        bool, typer.Option("--secure", help="With TLS and a key for every SuperNode.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="The run's folder (default: a new one under runs/).")
    ] = None,
) -> None:
    """Try it out: a SuperLink, its SuperNodes and a run on digits, all on this machine."""
    with needing_flower():
        from flr.flower.local.demo import try_out
    folder = first_free(Path("runs") / f"flower-{method}") if out is None else out
    changes: dict[str, str | int | float] = {"method": method, "rounds": rounds}
    changes |= {"partition.clients": sites, "train.participation": 1.0}

    def show(metrics: dict[str, Any]) -> None:
        accuracy, replies = 100 * metrics["accuracy"], len(metrics["participants"])
        said = f"round {metrics['round']}/{rounds}  accuracy {accuracy:.1f} %"
        say(f"{said}  {counted(replies, 'site')}")

    try:
        done = try_out(changes, folder, secure=secure, say=say, on_round=show)
    except KeyboardInterrupt:
        say("Stopped: the SuperLink and all SuperNodes have ended.")
        sys.exit(STOPPED)
    say(f"Report: {done / 'report.html'}")


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    add_help_option=False,
)
def node(context: typer.Context) -> None:
    """Flower's SuperNode, whose ClientApps need no second of CPU to start; its options are taken.

    For a site with an agent: `flr flower node --superlink HOST:PORT ...`, as `flower-supernode`.
    """
    with needing_flower():
        from flr.flower.quick.processes import become_supernode
    become_supernode(context.args)


@app.command("waiting-room")
def waiting_room(
    superlink: Annotated[str, typer.Option(help="The SuperLink, HOST:PORT.")] = "127.0.0.1:8000",
    host: Annotated[str, typer.Option(help="Where to listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The same.")] = 8001,
    ssl_ca_certfile: Annotated[
        Path | None, typer.Option(help="The three of the SuperLink; none: without TLS.")
    ] = None,
    ssl_certfile: Annotated[Path | None, typer.Option(help="The second.")] = None,
    ssl_keyfile: Annotated[Path | None, typer.Option(help="The third.")] = None,
) -> None:
    """Stand before a SuperLink and keep what SuperNodes ask until there is work for them."""
    with needing_flower():
        from flr.flower.quick.processes import become_waiting_room
    given = (ssl_ca_certfile, ssl_certfile, ssl_keyfile)
    certificates = [path for path in given if path is not None]
    if len(certificates) not in (0, 3):
        raise typer.BadParameter("give all three files of the SuperLink's certificate, or none")
    become_waiting_room(superlink, host, port, certificates)


@contextmanager
def needing_flower() -> Iterator[None]:
    """Flower is an extra, and only these commands need it; wraps their imports."""
    try:
        import_module("flwr.app")
        yield
    except ImportError as error:
        raise ConfigError(
            f"Expected Flower, which `flr flower` stands on; it cannot be imported ({error}). "
            'Install it: pip install "flr[flower]"'
        ) from error
