"""The paper's settings by data set: `preset = "cifar10"` fills in what a config leaves out.

A preset is a TOML file in `flr/presets/` shaped like a config, with a table `methods` besides.
There `methods.flr` has the options of that method; a sub-table named like a kind of noise or like
another method of the stack wins over them: papers tune for one noise or one combination.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from flr.config.problems import Problem, nearest


def known() -> dict[str, str]:
    """The presets by name, each with the first sentence of its file."""
    files = sorted(
        (Path(f.name).stem, f.read_text(encoding="utf-8"))
        for f in resources.files("flr").joinpath("presets").iterdir()
        if f.name.endswith(".toml")
    )
    return {name: text.splitlines()[0].lstrip("# ") for name, text in files}


def apply(raw: Mapping[str, Any]) -> tuple[dict[str, Any], list[Problem]]:
    """The config with its preset filled in; what the config says itself wins."""
    config = dict(raw)
    name = config.pop("preset", None)
    if name is None:
        return config, []
    if not isinstance(name, str) or name not in known():
        names = ", ".join(known())
        text = f"is not known.{nearest(str(name), list(known()))} Known: {names}."
        return config, [Problem(("preset",), text)]
    path = resources.files("flr").joinpath("presets", f"{name}.toml")
    preset = tomllib.loads(path.read_text(encoding="utf-8"))
    options = preset.pop("methods")
    filled = _under(preset, config)
    if isinstance(filled.get("noise"), str):
        filled["noise"] = {"kind": filled["noise"]}
    noise = filled.get("noise", {})
    kind = noise.get("kind") if isinstance(noise, Mapping) else None
    filled["method"] = _with_options(filled.get("method", "flr"), options, str(kind))
    return filled, []


def _under(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Both tables in one; where both have a value, the one above counts."""
    joined = {**below, **above}
    for key in below.keys() & above.keys():
        if isinstance(below[key], Mapping) and isinstance(above[key], Mapping):
            joined[key] = _under(below[key], above[key])
    return joined


def _with_options(method: Any, options: Mapping[str, Any], noise: str) -> Any:
    """The method or stack of a config, with the preset's options below its own."""
    parts = method if isinstance(method, list | tuple) else [method]
    tables = [{"name": part} if isinstance(part, str) else part for part in parts]
    names = [part.get("name", "flr") for part in tables if isinstance(part, Mapping)]
    filled = [
        {**_chosen(options.get(part.get("name", "flr"), {}), [noise, *names]), **part}
        if isinstance(part, Mapping)
        else part
        for part in tables
    ]
    return filled if isinstance(method, list | tuple) else filled[0]


def _chosen(options: Mapping[str, Any], circumstances: list[str]) -> dict[str, Any]:
    def flat() -> Iterator[tuple[str, Any]]:
        yield from ((k, v) for k, v in options.items() if not isinstance(v, Mapping))
        for name in circumstances:
            yield from options.get(name, {}).items()

    return dict(flat())
