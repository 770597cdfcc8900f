"""What a site does with a message: asks its policy, does the task, and answers; in its own process.

That is the process of a ClientApp, or the site's agent where it has one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cache
from typing import Any

from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from flwr.clientapp.typing import Mod

from flr.core.arrays import Arrays
from flr.core.errors import ConfigError
from flr.core.plain_text import kind_of, plain
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


@cache
def site_app(loader: Loader | None = None, mods: tuple[Mod, ...] = ()) -> ClientApp:
    """Everything a site can be asked; whatever it answers is in its ledger before it leaves.

    `loader` and `mods` are the app's own, for sites without an agent.
    """
    app = ClientApp(mods=[ledger_mod, *mods])  # the first is outside: it sees what is sent

    def hello(message: Message, context: Context) -> Message:
        return respond(message, context, say_hello, loader)

    def train(message: Message, context: Context) -> Message:
        return respond(message, context, do_task, loader)

    app.query("hello")(hello)

    app.train()(train)
    app.train("private", mods=[clipping_mod])(train)
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
    consent.require_size(own, result.reply.arrays)
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
            "the server's config cannot be used there; its log says why. Has it "
            "the same version of flr, and the packages that the config names"
        )
        said = {"site": site, "problem": problem}
    except Exception as error:
        log.exception("%s failed", site)
        problem = f"it failed with {kind_of(error)}; its log says more"
        said = {"site": site, "problem": problem}
    return Message(wire.write(said, arrays), reply_to=message)
