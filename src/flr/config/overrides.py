"""Settings from the command line, `--set train.lr=0.01`, laid over those of the file."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from flr.config.errors import ConfigProblem, cut
from flr.config.toml_lines import Place

Where = int | str  # a line of the file, or the option of the command line

_SHAPE = "Write --set key=value, for instance --set train.lr=0.01."


def apply(
    raw: dict[str, Any], where: dict[Place, Where], overrides: Sequence[str]
) -> list[ConfigProblem]:
    """Changes `raw`, and `where` to match; what cannot be applied is returned."""
    problems = []
    for text in overrides:
        key, equals, value = (part.strip() for part in text.partition("="))
        try:
            if not equals:
                raise ValueError(f"has no '='. {_SHAPE}")
            place = _put(raw, _place(key), _value(value))
        except ValueError as error:
            said = f"--set {cut(text, 60)}: {error}"
            problems.append(ConfigProblem(("--set",), said, head="none"))
            continue
        for known in [known for known in where if known[: len(place)] == place]:
            del where[known]
        where[place] = f"--set {cut(key, 60)}"
    return problems


def dotted(tree: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Every value of a tree by its key as `--set` takes it; an empty table is a value."""
    for key, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from dotted(value, f"{above}{key}.")
        else:
            yield above + key, value


def as_table(key: str | int, name: str) -> dict[str, Any]:
    """The table that a bare name stands for, under the key of a config where it is."""
    return {"kind" if key in ("partition", "noise", "attack") else "name": name}


def _place(key: str) -> Place:
    try:
        tree: Any = tomllib.loads(f"{key} = 0")
    except (ValueError, RecursionError):
        tree = {}
    place: Place = ()
    while isinstance(tree, dict) and len(tree) == 1:
        ((name, tree),) = tree.items()
        place += (name,)
    if tree != 0 or "\n" in key:
        raise ValueError(f"is not a key. {_SHAPE}")
    return place


def _value(text: str) -> Any:
    """TOML, or else a bare word: nobody wants to quote quotes in a shell."""
    try:
        parsed = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        if text[:1] in ("[", "{", '"', "'"):
            said = "the value is not valid TOML. Check its quotes and brackets."
            raise ValueError(said) from None
        return text
    return parsed["value"] if len(parsed) == 1 else text


def _put(raw: dict[str, Any], place: Place, value: Any) -> Place:
    """Sets the value and gives its place, in which the items of a list count by number."""
    holder: Any = raw
    found: Place = ()
    for part in place[:-1]:
        step = _step(holder, part)
        if isinstance(holder, dict):
            holder.setdefault(step, {})
        if isinstance(holder[step], str):  # method = "flr" and --set method.lam=3
            holder[step] = as_table(step, holder[step])
        holder, found = holder[step], (*found, step)
    last = _step(holder, place[-1])
    holder[last] = value
    return (*found, last)


def _step(holder: Any, part: str | int) -> str | int:
    if isinstance(holder, dict):
        return part
    if not isinstance(holder, list):
        raise ValueError("lies below a key that is no table. Set that key itself, or remove it.")
    if str(part).isdecimal() and int(part) < len(holder):
        return int(part)
    raise ValueError(f"expected an item's number below {len(holder)}, as in method.0.lam.")
