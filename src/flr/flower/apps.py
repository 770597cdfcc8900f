"""The two halves of a Flower app: what runs at every site, and what runs at the server."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from flwr.clientapp.typing import Mod
from flwr.serverapp import Grid, ServerApp

from flr.core.arrays import Arrays
from flr.core.errors import ConfigError, FlrError
from flr.core.plain_text import plain
from flr.engine.federation import Transport
from flr.flower import consent, wire
from flr.flower import node as nodes
from flr.flower.differential_privacy import clipping_mod
from flr.flower.node import SiteTask
from flr.flower.run_spec import RunSpec
from flr.flower.site_config import Loader, RefusalError, SiteConfig, name_of
from flr.flower.what_left import ledger_mod
from flr.flower.wire import WireError

log = logging.getLogger("flr")

Said = tuple[dict[str, Any], Arrays | None]


def client_app(*, data: Loader | None = None, mods: Sequence[Mod] = ()) -> ClientApp:
    """What runs at every site: says who it is and does tasks; data, state and device are its own.

    A site clips its update itself when it is asked by "train.private" (Flower's clipping mod).
    Whatever it answers is in its ledger before it leaves. A model of the app's own needs no
    argument: the config names it, for the server and all sites, as "package.module:function".

    Args:
        data: Reads what `data` of a site's node config names, where flr has no reader for it:
            gives inputs (uint8 images or float features) and labels (names or class numbers).
        mods: Flower's mods around every answer. They see messages as they are sent, and stand
            inside of the ledger, which enters what they leave of them.

    Returns:
        The app to name as `clientapp` in `[tool.flwr.app.components]`.

    Example:
        >>> app = client_app(data=lambda path: (np.load(path)["scans"], np.load(path)["grades"]))
    """
    log_to_stderr()
    app = ClientApp(mods=[ledger_mod, *mods])  # the first is outside: it sees what is sent

    def hello(message: Message, context: Context) -> Message:
        return respond(message, context, say_hello, data)

    def train(message: Message, context: Context) -> Message:
        return respond(message, context, do_task, data)

    app.query("hello")(hello)

    app.train()(train)
    app.train("private", mods=[clipping_mod])(train)
    return app


def server_app(*, mods: Sequence[Callable[[Transport], Transport]] = ()) -> ServerApp:
    """What runs at the server: a whole experiment, or the rest of one (`flower.resume`).

    There is no Strategy of Flower in it: sampling, rounds and aggregation are those of the method.
    What a wrapper of a Strategy does (look at replies, change or refuse them) a mod does here.

    Args:
        mods: Each gets what asks the sites (a `Transport`: `ask` and `name`) and gives one that
            stands around it. The last one is outermost, and hands replies to the method.

    Returns:
        The app to name as `serverapp` in `[tool.flwr.app.components]`.

    Example:
        >>> app = server_app()
    """
    log_to_stderr()
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        from flr.flower.server import serve

        try:
            serve(grid, context.run_config, mods)
        except FlrError as error:
            log.error("%s", error)  # Flower shows a traceback besides, but hides what it is about
            raise

    return app


def say_hello(own: SiteConfig, note: dict[str, Any], _: Arrays) -> Said:
    """Who a site is and what its data are like."""
    run_spec = RunSpec.from_note(note)
    consent.require(own, run_spec)
    return nodes.hello(own, run_spec), None


def do_task(own: SiteConfig, note: dict[str, Any], received: Arrays) -> Said:
    """One task of the server, at a site."""
    run_spec, site_task = RunSpec.from_note(note), SiteTask.of(note)
    consent.require(own, run_spec, site_task.task)
    result = nodes.execute(own, run_spec, site_task, received)
    said = {
        "site": own.site,
        "examples": result.reply.examples,
        "stateful": result.stateful,
        "seconds": result.seconds,
    }
    return said, result.reply.arrays


def respond(
    message: Message,
    context: Context,
    act: Callable[[SiteConfig, dict[str, Any], Arrays], Said],
    loader: Loader | None = None,
) -> Message:
    """Whatever happens at a site, the server gets an answer that says nothing it should not."""
    site, arrays = "", None
    try:
        site = name_of(context)
        own = SiteConfig.of(context, loader)
        said, arrays = act(own, *wire.read(message.content))
    except (RefusalError, WireError) as error:  # about the server's message, not our data
        log.warning("%s refused: %s", site or "this node", plain(error))
        said = {"site": site, "problem": str(error)}
    except ConfigError as error:
        log.error("%s", error)  # may name files: what a model's module says when imported
        problem = (
            "the server's config cannot be used there; the log of its SuperNode says why. Has it "
            "the same version of flr, and the packages that the config names"
        )
        said = {"site": site, "problem": problem}
    except Exception as error:
        log.exception("%s failed", site)
        problem = f"it failed with {type(error).__name__}; the log of its SuperNode says more"
        said = {"site": site, "problem": problem}
    return Message(wire.write(said, arrays), reply_to=message)


def log_to_stderr() -> None:
    """Flower shows what its apps write there, at the node and in `flwr run --stream`."""
    if not log.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("flr: %(message)s"))
        log.addHandler(handler)
        log.setLevel(logging.INFO)
