"""The two halves of a Flower app: what runs at every site, and what runs at the server.

app = client_app()        # a module for [tool.flwr.app.components] clientapp
app = server_app()        # and one for serverapp
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from flr.arrays import Arrays
from flr.errors import ConfigError, FlrError
from flr.flower import node as nodes
from flr.flower import wire
from flr.flower.charter import Charter
from flr.flower.node import Errand, Node, RefusalError
from flr.flower.privacy import clipping_mod
from flr.flower.wire import WireError

log = logging.getLogger("flr")

UNUSABLE = (
    "the server's config cannot be used there; the log of its SuperNode says why. Has it the same "
    "version of flr, and the packages that the config names"
)

Said = tuple[dict[str, Any], Arrays | None]


def client_app() -> ClientApp:
    """Answers the roll call and does tasks; the site's data, state and device are its own affair.

    A site clips its update itself when it is asked by "train.private" (Flower's clipping mod).
    """
    log_to_stderr()
    app = ClientApp()

    @app.query("hello")
    def hello(message: Message, context: Context) -> Message:
        def say(node: Node, note: dict[str, Any], _: Arrays) -> Said:
            return nodes.hello(node, Charter.from_note(note)), None

        return respond(message, context, say)

    def train(message: Message, context: Context) -> Message:
        return respond(message, context, do_task)

    app.train()(train)
    app.train("private", mods=[clipping_mod])(train)
    return app


def server_app() -> ServerApp:
    """Runs a whole experiment, or goes on with one (`flower.resume`)."""
    log_to_stderr()
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        from flr.flower.server import serve

        try:
            serve(grid, context.run_config)
        except FlrError as error:
            log.error("%s", error)  # Flower shows a traceback besides, but hides what it is about
            raise

    return app


def do_task(node: Node, note: dict[str, Any], received: Arrays) -> Said:
    """One task of the server, at a site."""
    found = nodes.answer(node, Charter.from_note(note), Errand.of(note), received)
    said = {
        "site": node.site,
        "examples": found.reply.examples,
        "stateful": found.stateful,
        "seconds": found.seconds,
    }
    return said, found.reply.arrays


def respond(
    message: Message, context: Context, act: Callable[[Node, dict[str, Any], Arrays], Said]
) -> Message:
    """Whatever happens at a site, the server gets an answer that says nothing it should not."""
    site = ""
    try:
        node = Node.of(context)
        site = node.site
        said, arrays = act(node, *wire.read(message.content))
    except RefusalError as refusal:
        said, arrays = {"site": site, "problem": str(refusal)}, None
    except WireError as error:  # about the server's message, not our data
        said, arrays = {"site": site, "problem": str(error)}, None
    except ConfigError as error:
        log.error("%s", error)  # may name files: what a model's module says when imported
        said, arrays = {"site": site, "problem": UNUSABLE}, None
    except Exception as error:
        log.exception("%s failed", site)
        problem = f"it failed with {type(error).__name__}; the log of its SuperNode says more"
        said, arrays = {"site": site, "problem": problem}, None
    return Message(wire.write(said, arrays), reply_to=message)


def log_to_stderr() -> None:
    """Flower shows what its apps write there, at the node and in `flwr run --stream`."""
    if not log.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("flr: %(message)s"))
        log.addHandler(handler)
        log.setLevel(logging.INFO)
