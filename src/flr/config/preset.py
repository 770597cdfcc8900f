"""The paper's settings by data set: `preset = "cifar10"` fills in what a config leaves out.

A preset is a TOML file in `presets/` shaped like a config, with a table `methods` besides.
There `methods.flr` has the options of that method; a sub-table named like a kind of noise or like
another method of the stack, or around it, wins over them: papers tune for one noise or one
combination. `rounds` there is how long runs of that method are. A preset that `extends` another has
what that one has, where it says nothing itself.
"""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from flr.config.errors import ConfigProblem, show
from flr.core import registry
from flr.core.registry import nearest


def known() -> dict[str, str]:
    """The presets by name, each with the first line of its file."""
    files = sorted(
        (Path(f.name).stem, f.read_text(encoding="utf-8"))
        for f in resources.files("flr.config").joinpath("presets").iterdir()
        if f.name.endswith(".toml")
    )
    return {name: text.splitlines()[0].lstrip("# ") for name, text in files}


def read(name: str) -> dict[str, Any]:
    """A preset whole, with what it extends."""
    path = resources.files("flr.config").joinpath("presets", f"{name}.toml")
    preset = tomllib.loads(path.read_text(encoding="utf-8"))
    return _under(read(preset.pop("extends")), preset) if "extends" in preset else preset


def apply(raw: Mapping[str, Any]) -> tuple[dict[str, Any], list[ConfigProblem]]:
    """The config with its preset filled in; what the config says itself wins."""
    config = dict(raw)
    name = config.pop("preset", None)
    if name is None:
        return config, []
    if not isinstance(name, str) or name not in known():
        names = ", ".join(known())
        text = f"= {show(name)} is not known.{nearest(str(name), list(known()))} Known: {names}."
        return {"rounds": 1, **config}, [ConfigProblem(("preset",), text, head="key")]
    preset = read(name)
    options, partition = preset.pop("methods"), preset.pop("partition")
    filled = _under(preset, config)
    scenario = config.get("scenario")
    if not (isinstance(scenario, Mapping) and "path" in scenario):  # which has its own partition
        filled["partition"] = _fill("partition", "kind", config.get("partition", {}), partition)
    noise = config.get("noise", "none")
    kind = noise.get("kind") if isinstance(noise, Mapping) else noise
    method = config.get("method", "flr")
    several = isinstance(method, list | tuple)
    parts = list(method) if several else [method]
    circumstances = [str(kind), *map(_name, parts)]
    chosen = [_options(part, options, circumstances) for part in parts]
    lengths = [found.pop("rounds") for found in chosen if "rounds" in found]
    if lengths and "rounds" not in config:
        filled["rounds"] = max(lengths)
    parts = [_fill("method", "name", *pair) for pair in zip(parts, chosen, strict=True)]
    parts = [_fill_inner(part, options, circumstances) for part in parts]
    filled["method"] = parts if several else parts[0]
    return filled, []


def _under(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Both tables in one; where both have a value, the one above counts."""
    joined = {**below, **above}
    for key in below.keys() & above.keys():
        if isinstance(below[key], Mapping) and isinstance(above[key], Mapping):
            joined[key] = _under(below[key], above[key])
    return joined


def _name(part: Any) -> str:
    return str(part.get("name", "flr") if isinstance(part, Mapping) else part)


def _options(part: Any, options: Mapping[str, Any], circumstances: list[str]) -> dict[str, Any]:
    """What a preset says of a method, or else of the one that it is an alias of."""
    entries = registry.entries("method")
    entry = entries.get(_name(part))
    if entry is None:
        return {}
    same = (n for n in options if n in entries and entries[n].factory is entry.factory)
    found = options.get(entry.name) or options.get(next(same, ""), {})
    chosen = {key: value for key, value in found.items() if not isinstance(value, Mapping)}
    for name in circumstances:
        if isinstance(found.get(name), Mapping):
            chosen |= found[name]
    return {key: value for key, value in chosen.items() if key not in entry.fixed}


def _fill_inner(part: Any, options: Mapping[str, Any], circumstances: list[str]) -> Any:
    """A method around another, with that one's options for being inside it."""
    entries = registry.entries("method")
    entry = entries.get(_name(part))
    if entry is None or not isinstance(part, Mapping):
        return part
    alias = entry.fixed.get("inner")  # of which only the name counts: a preset knows the rest
    inner = part.get("inner") if alias is None else alias["name"]
    if inner is None:
        return part
    around = next(name for name, other in entries.items() if other.factory is entry.factory)

    def filled(each: Any) -> Any:
        own = _options(each, options, [*circumstances, around])
        own.pop("rounds", None)
        return _fill("method", "name", each, own)

    made = [filled(e) for e in inner] if isinstance(inner, list | tuple) else filled(inner)
    if alias is None:
        return {**part, "inner": made}
    # an alias cannot have other options inside than it stands for
    return part if made in (alias, {"name": inner}) else {**part, "name": around, "inner": made}


def _fill(kind: str, key: str, chosen: Any, options: Mapping[str, Any]) -> Any:
    """An entry with the options that it has; anything else stays, for the checks to refuse."""
    table = {key: chosen} if isinstance(chosen, str) else chosen
    if not isinstance(table, Mapping):
        return chosen
    default = {"partition": "iid", "method": "flr"}[kind]
    entry = registry.entries(kind).get(str(table.get(key, default)))
    if entry is None:
        return chosen
    takes = inspect.signature(entry.factory).parameters
    return {**{name: value for name, value in options.items() if name in takes}, **table}
