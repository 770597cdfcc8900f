"""A site on its own machine: its data, its state on disk, and its answers to the server.

What a site says of itself at the roll call: its name, how many samples it has, their shape and
type. When it cannot take part it says why in words made of these and of its node config's class
list and keys; what its files hold, and where, stays in its own log.
"""

from __future__ import annotations

import difflib
import json
import logging
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from flwr.app import Context
from torch import Tensor

from flr import config as configs
from flr.arrays import Arrays, canonical_json, write_atomically
from flr.assemble import load_data, load_scenario, make_blueprint, make_sites, threads
from flr.client.desk import Answer, Desk, Order
from flr.client.state import StateFiles
from flr.contract import Site
from flr.data import sources
from flr.data.dataset import SiteTable, Subject
from flr.errors import DataError, FlrError
from flr.flower.charter import SITE_NAME, Charter
from flr.flower.roll import is_count, plain

log = logging.getLogger("flr")

KEYS = ("site", "data", "label", "size", "classes", "state-dir", "device")  # of the node's config

_BESIDE = ("partition-id", "num-partitions")  # Flower's own
_EXPERIMENT = re.compile(r"[0-9a-f]{16}")


class RefusalError(Exception):
    """Why this site cannot do what it was asked, in words that may leave it."""


@dataclass(frozen=True)
class Node:
    """What the people at a site have said about it (`flower-supernode --node-config`)."""

    site: str
    data: Path | None = None  # None: the site of the scenario with this number
    number: int | None = None
    label: str = "label"
    size: int | None = None
    classes: tuple[str, ...] | None = None
    state: Path = Path()
    device: str = "cpu"

    @classmethod
    def of(cls, context: Context) -> Node:
        """From Flower's node config; in a simulation only the partition's number is there."""
        own = context.node_config
        refuse_misspelt(own)
        number = own.get("partition-id")
        name = str(own.get("site") or ("" if number is None else f"site-{number}"))
        if not SITE_NAME.fullmatch(name):
            raise RefusalError(
                f"expected a site name of letters, digits, spaces, dots and dashes; got {name!r}. "
                'Start the node with --node-config \'site="ward-7" data="/path/to/its/data"\''
            )
        size, classes, data = own.get("size"), own.get("classes"), own.get("data")
        if data is None and number is None:
            known = ", ".join(KEYS)
            raise RefusalError(f"its node config names no data. Known keys: {known}")
        return cls(
            site=name,
            data=None if data is None else Path(str(data)).expanduser(),
            number=None if number is None else int(number),
            label=str(own.get("label", "label")),
            size=None if size is None else int(size),
            classes=None if classes is None else listed(str(classes)),
            state=Path(str(own.get("state-dir") or default_state())).expanduser(),
            device=str(own.get("device", "cpu")),
        )


def refuse_misspelt(own: Mapping[str, Any]) -> None:
    """Other keys may be there for other apps; one that is nearly ours is a slip."""
    for key in own.keys() - {*KEYS, *_BESIDE}:
        near = difflib.get_close_matches(key.replace("_", "-"), KEYS, n=1, cutoff=0.75)
        if near:
            raise RefusalError(
                f"its node config has {plain(key)!r}; is {near[0]!r} meant? Known keys: "
                f"{', '.join(KEYS)}"
            )


def default_state() -> str:
    """Where a node keeps its state unless it says otherwise."""
    return os.environ.get("FLR_STATE") or str(Path.home() / ".flr" / "state")


def listed(text: str) -> tuple[str, ...]:
    """ "cat, dog" as names: node and run configs have no lists."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


@dataclass(frozen=True)
class OnlySite:
    """The one site of this machine, whatever number the server gave it."""

    site: Site

    @property
    def classes(self) -> int:
        return self.site.classes

    def __getitem__(self, client: int) -> Site:
        return self.site


def hello(node: Node, charter: Charter) -> dict[str, Any]:
    """What a site says of itself at the roll call."""
    if charter.classes is None:
        table, _, number = scenario_site(node, charter)
        x, examples = table.x, table.size(number)
    else:
        x, y = own_data(node, charter.classes)
        examples = len(y)
    return {
        "site": node.site,
        "examples": examples,
        "shape": list(x.shape[1:]),
        "dtype": str(x.dtype).removeprefix("torch.") if isinstance(x, Tensor) else "uint8",
    }


@dataclass(frozen=True)
class Errand:
    """A task for this site, with what the server says about its state."""

    order: Order
    keep: set[int]  # versions of the state that the server may go back to
    attempt: int  # of the run: a server that was killed may have left messages behind

    @classmethod
    def of(cls, note: Mapping[str, Any]) -> Errand:
        """Refuses whatever is no number: some of these name files."""
        asked = dict(note["order"])
        keep, attempt = asked.pop("keep"), asked.pop("attempt")
        numbers = [asked[key] for key in ("client", "step", "round", "rounds")]
        numbers += [attempt, *keep, 0 if asked["version"] is None else asked["version"]]
        if not all(map(is_count, numbers)) or not isinstance(asked["task"], str):
            raise RefusalError("the server's order is not one that flr gives")
        return cls(Order(**asked), set(keep), attempt)


def answer(node: Node, charter: Charter, errand: Errand, received: Arrays) -> Answer:
    """Does one task; the state it starts from is the version that the server has accepted."""
    order = errand.order
    config = charter.config(node.device)
    site, subject = own_site(node, charter)
    folder = state_folder(node, charter)
    refuse_earlier(folder / "attempt", errand.attempt)
    states = StateFiles(folder)
    if order.version is not None and not states.has(order.client, order.version):
        raise RefusalError(
            f"its state of step {order.version} is gone. Bring its state-dir back, or leave the "
            "site out and start a new run"
        )
    states.keep_only({order.client: errand.keep})
    blueprint = make_blueprint(config, subject, OnlySite(site), states)
    with threads(config.train.threads):
        desk = Desk(blueprint)
        desk.broadcast = received
        try:
            return desk.serve(order)
        except FlrError as error:
            log.error("%s", error)
            raise RefusalError(
                f'task "{order.task}" failed; the reason is in the log of its SuperNode'
            ) from error
        except RuntimeError as error:
            if "state_dict" not in str(error):
                raise
            log.error("%s", error)
            raise RefusalError(
                "the weights it got do not fit its model: another shape. Has it the same model "
                "code, class list and flr version as the server?"
            ) from error


def refuse_earlier(path: Path, attempt: int) -> None:
    """A server that was resumed is the only one that counts; its predecessor's orders come late."""
    newest = int(path.read_text()) if path.exists() else 0
    if attempt < newest:
        raise RefusalError("the run was resumed since, and this is an order of before")
    if attempt > newest:
        write_atomically(path, str(attempt))


def state_folder(node: Node, charter: Charter) -> Path:
    """Keyed by experiment and site: node ids change, and one machine may serve several sites."""
    if not _EXPERIMENT.fullmatch(charter.experiment):
        raise RefusalError("the experiment's name is not one that flr gives")
    return node.state / charter.experiment / node.site


def own_site(node: Node, charter: Charter) -> tuple[Site, Subject]:
    """The site with its inputs as a network sees them, and what they are about."""
    if charter.classes is None:
        table, drawn, number = scenario_site(node, charter)
        return replace(table[number], name=node.site), drawn
    if charter.subject is None:
        raise RefusalError("the server has not said what is classified")
    subject = charter.subject
    x, y = own_data(node, charter.classes)
    if tuple(x.shape[1:]) != subject.input_shape:
        raise RefusalError(shapes_differ(tuple(x.shape[1:]), subject.input_shape))
    return Site(node.site, subject.normalise(x), y, len(subject.classes)), subject


def shapes_differ(own: tuple[int, ...], expected: tuple[int, ...]) -> str:
    """One sentence for both sides of the wire."""
    return (
        f"its inputs have shape {own}, the federation's model takes {expected}. Prepare them "
        "alike (for images: `size` in the node config)"
    )


def own_data(node: Node, classes: tuple[str, ...]) -> tuple[Tensor, Tensor]:
    """The site's samples, in the publisher's units, with labels as positions in the class list."""
    if node.data is None:
        raise RefusalError(
            "the federation works on the sites' own data, and its node config names none. "
            'Add data="/path" to it'
        )
    if node.classes is not None and node.classes != classes:
        raise RefusalError(
            f"its class list is {', '.join(node.classes)}; the federation's is "
            f"{', '.join(classes)}. Order counts: use the federation's list, or leave it out"
        )
    try:
        x, y, _, _ = sources.read(node.data, classes, node.label, node.size, training=True)
    except DataError as error:
        log.error("site %s: %s", node.site, error)
        found = f"its data cannot be used with the classes {', '.join(classes)}"
        if not node.data.exists():
            found = "it has no data at the path that its node config gives"
        raise RefusalError(
            f"{found}; what exactly is wrong is in the log of its SuperNode. Mend the data, or "
            "`data` in its node config"
        ) from error
    if y is None or len(y) == 0:
        raise RefusalError("it has no labelled samples. Point `data` of its node config to some")
    return x, y


def scenario_site(node: Node, charter: Charter) -> tuple[SiteTable, Subject, int]:
    """The site of the simulated split with the node's number; all nodes draw the same one."""
    table, subject = _scenario(canonical_json(charter.tree))
    if node.number is not None and node.site != f"site-{node.number}":
        raise RefusalError(
            f"in a simulated scenario a site is called by its number, site-{node.number}; its "
            f"node config says {node.site}. Leave `site` out"
        )
    if node.number is None or not 0 <= node.number < len(table):
        raise RefusalError(
            f"the scenario has sites 0 to {len(table) - 1}; its partition-id is {node.number}. "
            "Start as many nodes as the scenario has sites"
        )
    return table, subject, node.number


@lru_cache(maxsize=1)  # a simulation asks the same process for many sites
def _scenario(tree: str) -> tuple[SiteTable, Subject]:
    config = configs.parse(json.loads(tree))
    dataset = load_data(config)
    sites = make_sites(dataset, load_scenario(config, dataset))
    return sites, dataset.subject(config.data.augment)
