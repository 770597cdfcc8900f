"""Settings from the command line, `--set train.lr=0.01`, laid over those of the file."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from typing import Any

from flr.config.locate import Place
from flr.config.problems import Problem, cut

Where = int | str  # a line of the file, or the option of the command line

_SHAPE = "Write --set key=value, for instance --set train.lr=0.01."


def apply(
    raw: dict[str, Any], where: dict[Place, Where], overrides: Sequence[str]
) -> list[Problem]:
    """Changes `raw`, and `where` to match; what cannot be applied is returned."""
    problems = []
    for text in overrides:
        try:
            place, value = _split(text)
            place = _put(raw, place, value)
        except ValueError as error:
            problems.append(Problem(("--set",), f"--set {cut(text, 60)}: {error}", head="none"))
            continue
        for known in [known for known in where if known[: len(place)] == place]:
            del where[known]
        where[place] = f"--set {cut(text.partition('=')[0].strip(), 60)}"
    return problems


def _split(text: str) -> tuple[Place, Any]:
    key, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"has no '='. {_SHAPE}")
    return _place(key.strip()), _value(value.strip())


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
            raise ValueError(
                "the value is not valid TOML. Check its quotes and brackets."
            ) from None
        return text
    return parsed["value"] if len(parsed) == 1 else text


def _put(raw: dict[str, Any], place: Place, value: Any) -> Place:
    """Sets the value and gives its place, in which the items of a list count by number."""
    holder: Any = raw
    found: Place = ()
    for part in place[:-1]:
        step = _step(holder, part)
        if isinstance(holder, dict):
            inner = holder.setdefault(step, {})
            if isinstance(inner, str):  # method = "flr" and --set method.lam=3
                holder[step] = {_name_key(step): inner}
        elif isinstance(holder[step], str):
            holder[step] = {"name": holder[step]}
        holder, found = holder[step], (*found, step)
    last = _step(holder, place[-1])
    holder[last] = value
    return (*found, last)


def _step(holder: Any, part: str | int) -> str | int:
    if isinstance(holder, dict):
        return part
    if isinstance(holder, list):
        if str(part).isdecimal() and int(part) < len(holder):
            return int(part)
        raise ValueError(f"expected an item's number below {len(holder)}, as in method.0.lam.")
    raise ValueError("lies below a key that is no table. Set that key itself, or remove it.")


def _name_key(section: object) -> str:
    return "kind" if section in ("partition", "noise") else "name"
