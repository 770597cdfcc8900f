"""The two halves of a Flower app: what runs at every site, and what runs at the server.

A site with an agent imports this module for every message, so it stays light: torch and all that
stands on it are imported by whoever trains.
"""

from __future__ import annotations

import logging

from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from flr.core.errors import FlrError
from flr.flower.agent import messenger

log = logging.getLogger("flr")


def client_app() -> ClientApp:
    """What runs at every site: says who it is and does tasks; data, state and device are its own.

    Where the node config names an agent, that one does all of it. A site clips its update itself
    when it is asked by "train.private" (Flower's clipping mod). Whatever it answers is in its
    ledger before it leaves.

    Returns:
        The app to name as `clientapp` in `[tool.flwr.app.components]`.

    Example:
        >>> app = client_app()
    """
    log_to_stderr()
    app = ClientApp()

    def answer(message: Message, context: Context) -> Message:
        if context.node_config.get(messenger.KEY) is not None:
            return messenger.hand_over(message, context)
        from flr.flower.site_app import site_app

        return site_app()(message, context)

    app.query("hello")(answer)
    app.train()(answer)
    app.train("private")(answer)
    return app


def server_app() -> ServerApp:
    """What runs at the server: a whole experiment, or the rest of one (`flower.resume`).

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
            serve(grid, context.run_config)
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
