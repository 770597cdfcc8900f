"""What a registered name means, from its own declarations: nothing here knows a method."""

from __future__ import annotations

import dataclasses
import inspect
import math
import re
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast, get_args, get_origin, get_type_hints

from flr.core.arrays import nbytes
from flr.core.combine import parts_of
from flr.core.contract import Method
from flr.core.registry import Entry
from flr.core.traits import VALIDATION_SENDS, Declared
from flr.models import networks as models
from flr.models.networks import weights_of

REQUIRED = "required"


@dataclasses.dataclass(frozen=True)
class Option:
    """One setting of an entry."""

    name: str
    type: str
    default: Any
    fixed: bool


def options(entry: Entry) -> list[Option]:
    """The settings of an entry, with what an alias has fixed."""
    hints = get_type_hints(entry.factory)
    found = []
    for parameter in inspect.signature(entry.factory).parameters.values():
        if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
            continue
        default = entry.fixed.get(parameter.name, parameter.default)
        shown = REQUIRED if default is inspect.Parameter.empty else default
        text = type_name(hints.get(parameter.name, Any))
        found.append(Option(parameter.name, text, shown, parameter.name in entry.fixed))
    return found


def type_name(hint: Any) -> str:
    """A type as a reader of TOML would call it."""
    if get_origin(hint) is None:
        names = {"NoneType": "nothing", "str": "text", "bool": "true or false"}
        return names.get(hint.__name__, str(hint.__name__).lower())
    if get_origin(hint).__name__ == "Literal":
        return " | ".join(repr(value) for value in get_args(hint))
    if get_origin(hint) in (list, tuple, dict):
        return {"dict": "table"}.get(get_origin(hint).__name__, "list")
    return " | ".join(type_name(part) for part in get_args(hint))


def shape_text(declared: Declared) -> str:
    """A declared array in one line."""
    shape = " x ".join(str(n) for n in declared.shape) or "one number"
    dtype = str(declared.dtype).removeprefix("torch.")
    when = f" ({declared.when})" if declared.when else ""
    return f"{declared.name} ({shape}, {dtype}): {declared.what}{when}"


def weights_text(method: Method) -> str:
    """The weights as they cross the wire."""
    count = method.traits.networks
    return f"weights and buffers of {'the network' if count == 1 else f'{count} networks'}"


def leaves_the_site(method: Method) -> list[str]:
    """Everything a client sends in a round."""
    what = (weights_text(method), "the number of its samples")
    return [*what, *map(shape_text, method.traits.sends)]


COUNTED = [shape_text(declared) for declared in VALIDATION_SENDS]  # of every method, if asked for


def reaches_the_site(method: Method) -> list[str]:
    """Everything a client receives in a round."""
    what = (weights_text(method), "round, number of rounds, step")
    return [*what, *map(shape_text, method.traits.receives)]


def stays_at_the_site(method: Method) -> list[str]:
    """What a site remembers between rounds."""
    return [shape_text(d) for d in method.traits.keeps] or ["nothing"]


def message_bytes(method: Method, weights: int, words: Mapping[str, int]) -> tuple[int, int]:
    """(down, up) for a client and round: so many bytes of weights, and all declared arrays.

    `words` says what the words in declared shapes mean at the site. Messages without the arrays
    that are declared for some of them only (`when`) are smaller.
    """
    network = weights // method.traits.networks
    down, up = (
        weights + sum(array_bytes(d, network, words) for d in declared)
        for declared in (method.traits.receives, method.traits.sends)
    )
    return down, up


def array_bytes(declared: Declared, network: int, words: Mapping[str, int]) -> int:
    """The size of a declared array; `network` is that of one whole network."""
    if declared.name.endswith(".*"):
        return network
    return math.prod(declared.size(words)) * declared.dtype.itemsize


def method_of(entry: Entry) -> Method:
    """The method of an entry with its default settings; its class, where some have no default."""
    required = any(option.default == REQUIRED for option in options(entry))
    return cast(Method, entry.factory if required else entry.factory(**entry.fixed))


def reflow(doc: str, width: int) -> str:
    """Fills paragraphs to the width; indented lines (equations) and headings like "State:" stay."""
    joined = re.sub(r"(?m)^(\S.*)\n(?=\S)(?![A-Z][\w ]*:)", r"\1 ", doc)
    lines = joined.splitlines()
    return "\n".join(b if not b or b[0].isspace() else textwrap.fill(b, width) for b in lines)


def sections(entry: Entry) -> list[tuple[str, Sequence[str]]]:
    """Titles and lines of what `flr describe` prints below the documentation."""
    settings = [
        f"{o.name} = {toml_value(o.default)}{'  (fixed)' if o.fixed else ''}   {o.type}"
        for o in options(entry)
    ]
    if entry.kind != "method":
        return [("Settings", settings or ["none"])]
    method = method_of(entry)
    networks = models.build(models.mlp, (1, 8, 8), 10, method.traits.networks, seed=0)
    words = {"classes": 10, "samples": 72, "features": models.features(networks[0])}
    down, up = message_bytes(method, nbytes(weights_of(networks)), words)
    size = f"{down:,} bytes down, {up:,} bytes up for the demo's mlp on digits (72 samples)"
    single = "it looks at single replies, not only at sums: secure aggregation is impossible"
    clean = "clean samples at the server, held out of all sites: [scenario] benchmark = 50, say"
    return [
        ("Settings", settings or ["none"]),
        *([("Needs", [clean])] if method.traits.supervised else []),
        ("Cost", [method.traits.cost]),
        ("Leaves the site, each round", [*leaves_the_site(method), *COUNTED]),
        *([("At the server", [single])] if method.traits.individual else []),
        ("Reaches the site, each round", reaches_the_site(method)),
        ("Stays at the site between rounds", stays_at_the_site(method)),
        ("Message size", [size]),
    ]


def toml_value(value: Any) -> str:
    """A default as one would write it in a config."""
    if value is None:
        return "(decided at run time)"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{k} = {toml_value(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    return f'"{value}"' if isinstance(value, str | Path) and value != REQUIRED else str(value)


def facts(entry: Entry) -> dict[str, Any]:
    """An entry as JSON, for `flr list --json` and other tools."""
    plain = (int, float, str, list, dict, type(None))  # what JSON can hold
    found: dict[str, Any] = {
        "name": entry.name,
        "title": entry.title,
        "summary": entry.summary,
        "settings": {
            o.name: o.default if isinstance(o.default, plain) else str(o.default)
            for o in options(entry)
        },
    }
    if entry.kind == "method":
        method = method_of(entry)
        found |= {
            "year": entry.year,
            "paper": entry.paper,
            "networks": method.traits.networks,
            "sends": [d.name for part in parts_of(method) for d in part.traits.sends],
            "keeps": [d.name for part in parts_of(method) for d in part.traits.keeps],
        }
    return found
