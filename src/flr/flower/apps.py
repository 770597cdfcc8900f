"""The two halves of a Flower app: what runs at every site, and what runs at the server.

A site with an agent imports this module for every message, so it stays light: torch and all that
stands on it are imported by whoever trains.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from flwr.clientapp.typing import Mod
from flwr.serverapp import Grid, ServerApp

from flr.core.errors import FlrError
from flr.flower.agent import messenger

if TYPE_CHECKING:
    from flr.engine.federation import Transport
    from flr.flower.site_config import Loader

log = logging.getLogger("flr")


def client_app(*, data: Loader | None = None, mods: Sequence[Mod] = ()) -> ClientApp:
    """What runs at every site: says who it is and does tasks; data, state and device are its own.

    Where the node config names an agent, that one does all of it, and neither argument counts. A
    site clips its update itself when it is asked by "train.private" (Flower's clipping mod).
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
    app = ClientApp()

    def answer(message: Message, context: Context) -> Message:
        if context.node_config.get(messenger.KEY) is not None:
            return messenger.hand_over(message, context)
        from flr.flower.site_app import site_app

        return site_app(data, tuple(mods))(message, context)

    app.query("hello")(answer)
    app.train()(answer)
    app.train("private")(answer)
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


def log_to_stderr() -> None:
    """Flower shows what its apps write there, at the node and in `flwr run --stream`."""
    if not log.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("flr: %(message)s"))
        log.addHandler(handler)
        log.setLevel(logging.INFO)
