"""From a TOML file or a mapping to a checked Config: all problems at once, before data is read."""

from __future__ import annotations

import copy
import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from flr.config import preset
from flr.config.conflicts import conflicts
from flr.config.entry import validate
from flr.config.errors import ConfigProblem, cut, name_of, show, translate
from flr.config.evaluation import Eval
from flr.config.overrides import Where, apply
from flr.config.settings import Config, ScenarioConfig
from flr.config.toml_lines import Place, find_lines
from flr.config.train import Train
from flr.core.errors import ConfigError
from flr.core.registry import nearest

_LARGEST = 1_000_000  # bytes
_DEEPEST = 16  # levels of tables and lists
_SHOWN = 40  # problems
_TWICE = ("Cannot overwrite", "Cannot declare", "Duplicate", "Cannot mutate")


def load(path: Path, overrides: Sequence[str] = ()) -> Config:
    """Reads a config and checks all of it at once.

    Args:
        path: A TOML file.
        overrides: Settings like "noise.kind=asymmetric", which win over the file.

    Raises:
        ConfigError: Every mistake, with its line and what to do.

    Example:
        >>> load(Path("experiment.toml"), ["seed=2"]).rounds
    """
    raw, where = read_toml(path)
    return _check(raw, cut(str(path), 300), where, apply(raw, where, overrides))


def read_toml(path: Path) -> tuple[dict[str, Any], dict[Place, Where]]:
    """A file's tables, and the lines on which their keys stand; ConfigError where it is no TOML."""
    source, text = cut(str(path), 300), _read(path)
    try:
        return tomllib.loads(text), dict(find_lines(text))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(_syntax(source, str(error))) from None
    except ValueError:  # Python's own limit on the digits of a number
        raise ConfigError(
            f"{source}: expected numbers of at most 64 bits; one has thousands of digits. "
            "Shorten it."
        ) from None
    except RecursionError:
        raise ConfigError(
            f"{source}: expected a few levels of tables and lists; it nests too deeply. Flatten it."
        ) from None


def parse(
    raw: Mapping[str, Any],
    source: str = "config",
    lines: Mapping[Place, Where] | None = None,
    overrides: Sequence[str] = (),
) -> Config:
    """Checks a config that is a mapping, shaped like the file.

    Args:
        raw: The settings.
        source: What messages call it.
        lines: Where in the source each key stands, for messages.
        overrides: Settings like "noise.kind=asymmetric", which win over the mapping.

    Example:
        >>> parse({"method": "flr", "rounds": 20}).label
    """
    where = dict(lines or {})
    changed: Any = copy.deepcopy(dict(raw)) if overrides else raw
    return _check(changed, source, where, apply(changed, where, overrides))


def _check(
    raw: Mapping[str, Any], source: str, where: Mapping[Place, Where], problems: list[ConfigProblem]
) -> Config:
    if not isinstance(raw, Mapping):
        kind = type(raw).__name__
        raise ConfigError(f"{source}: expected a table of settings, got {kind}. Pass a dict.")
    tree, unknown_preset = preset.apply(plain_tree(raw, (), problems))
    problems += unknown_preset
    refused = {_unit(problem.at) for problem in problems}
    config, found = _attempt(tree)
    problems += [problem for problem in found if _unit(problem.at) not in refused]
    if problems or config is None:
        problems += _salvaged(tree, {_unit(problem.at) for problem in problems})
    elif not config.missing():  # else only results are read; the run itself was checked
        problems += [problem for _, problem in conflicts(config)]
    if problems or config is None:
        raise ConfigError(in_words(problems, tree, source, where))
    return config


def _attempt(tree: dict[str, Any]) -> tuple[Config | None, list[ConfigProblem]]:
    try:
        return validate(Config, tree), []
    except ValidationError as error:
        found = translate(error, Config, _unknown_key)
    for number, problem in enumerate(found):
        if problem.at[:2] == ("data", "source"):  # in the file, its options stand in [data] itself
            found[number] = replace(problem, at=("data", *problem.at[2:]))
    return None, found


def _salvaged(tree: dict[str, Any], broken: set[Place]) -> list[ConfigProblem]:
    """The conflicts that remain when what is broken is left out, and so were not caused by it."""
    rest = {key: dict(part) if isinstance(part, dict) else part for key, part in tree.items()}
    for place in broken:
        table: Any = rest if len(place) == 1 else rest.get(str(place[0]), {})
        if isinstance(table, dict):
            table.pop(place[-1], None)
    config, _ = _attempt({"rounds": 1, **rest})
    if config is None:
        return []
    known = any(place[0] in Config.model_fields for place in broken)

    def is_affected(places: list[Place] | None) -> bool:
        if places is None:
            return known
        return any(place[: len(other)] == other for place in places for other in broken)

    return [problem for places, problem in conflicts(config) if not is_affected(places)]


def _unit(place: Place) -> Place:
    """The smallest part of a config that can be left out alone: an entry goes with its options."""
    return place[:2] if place[0] in ("train", "eval", "scenario") else place[:1]


def _unknown_key(place: Place) -> str:
    """Also finds keys on the wrong side of a [section] line, TOML's commonest trap."""
    name = str(place[-1])
    if name in Config.model_fields:
        return (
            "is not known here. It belongs at the top, before the first [section]: move it there."
        )
    sections: dict[Any, type[BaseModel]] = {"train": Train, "eval": Eval}
    for section, model in sections.items():
        if name in model.model_fields:
            return f"is not known here. It belongs in [{section}]: move it there."
    sections["scenario"] = ScenarioConfig
    known = list((sections[place[0]] if len(place) > 1 else Config).model_fields)
    return f"is not known.{nearest(name, known)} Known: {', '.join(known)}. Correct or remove it."


def plain_tree(value: Any, at: Place, problems: list[ConfigProblem]) -> Any:
    """A copy that JSON could hold; whatever could not be is reported and left out."""
    if isinstance(value, Path):
        value = str(value)
    reason = ""
    if len(at) > _DEEPEST:
        at, reason = at[:3], "nests too deeply. Expected a few levels: flatten it."
    elif isinstance(value, Mapping):
        pairs = [(_text(key), item) for key, item in value.items()]
        plain = {key: plain_tree(item, (*at, key), problems) for key, item in pairs}
        return {key: item for key, item in plain.items() if item is not None}
    elif isinstance(value, list | tuple):
        items = [plain_tree(item, (*at, index), problems) for index, item in enumerate(value)]
        return [item for item in items if item is not None]
    elif isinstance(value, int) and not -(2**63) <= value < 2**63:
        reason = "should have at most 64 bits. Shorten it."
    elif isinstance(value, float) and not math.isfinite(value):
        reason = f"is {value}. Expected a finite number: write one, or leave it out."
    elif isinstance(value, str) and _text(value) != value:
        reason = "is not valid Unicode text. Retype it."
    elif not isinstance(value, int | float | str | None):
        kind = type(value).__name__
        reason = f"is a {kind}. Expected text, a number, true, false, a list or a table."
    if not reason:
        return value
    problem = ConfigProblem(at, reason)
    if problem not in problems:
        problems.append(problem)
    return None


def _text(value: object) -> str:
    """Without lone surrogates, which a shell makes of bytes that are no UTF-8."""
    return str(value).encode(errors="backslashreplace").decode()


def in_words(
    problems: list[ConfigProblem], tree: dict[str, Any], source: str, where: Mapping[Place, Where]
) -> str:
    located = [(_find(where, problem.at), problem) for problem in problems]
    located.sort(key=lambda pair: pair[0] if isinstance(pair[0], int) else math.inf)
    lines = list(dict.fromkeys(_line(spot, problem, tree) for spot, problem in located))
    count = "1 error" if len(lines) == 1 else f"{len(lines)} errors"
    if len(lines) > _SHOWN:
        lines = [*lines[:_SHOWN], f"and {len(lines) - _SHOWN} more"]
    return f"{source} has {count}:\n" + "\n".join(f"  {line}" for line in lines)


def _line(spot: Where, problem: ConfigProblem, tree: Any) -> str:
    words = [] if spot == "" else [f"line {spot}:" if isinstance(spot, int) else f"{spot}:"]
    if problem.head != "none" and problem.at:
        words.append(name_of(problem.at))
        for part in problem.at:
            inside = isinstance(tree, dict) and part in tree
            inside = inside or (isinstance(tree, list) and part in range(len(tree)))
            tree = tree[part] if inside else None
        if problem.head == "value" and tree is not None:
            words += ["=", show(tree)]
    return cut(" ".join([*words, problem.text]), 600)


def _find(where: Mapping[Place, Where], place: Place) -> Where:
    """Where the key stands, or else the nearest table around it."""
    spots = (where[place[:end]] for end in range(len(place), 0, -1) if place[:end] in where)
    return next(spots, "")


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST + 1)
        if len(data) > _LARGEST:
            raise ConfigError(
                f"{path}: expected a config of a few lines; it has over {_LARGEST:,} bytes. "
                "Is it another file?"
            )
        return data.decode("utf-8-sig")  # some editors on Windows begin a file with a mark
    except FileNotFoundError:
        raise ConfigError(f"Expected a config at {path}; there is none. Check the path.") from None
    except IsADirectoryError:
        raise ConfigError(
            f"Expected a TOML file at {path}; it is a folder. Name the file in it."
        ) from None
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ConfigError(
            f"{path}: expected UTF-8 text; line {line} has other bytes. Save it as UTF-8."
        ) from None
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"Expected a readable config at {cut(str(path), 200)}; it cannot be read ({error}). "
            "Check the path and its permissions."
        ) from None


def _syntax(source: str, error: str) -> str:
    """The parser's message, with the place first."""
    match = re.fullmatch(r"(.*) \(at (?:line (\d+), column (\d+)|end of document)\)", error, re.S)
    what, line, column = match.groups() if match else (error, None, None)
    spot = f"line {line}, column {column}" if line else "end of file"
    advice = f"Expected TOML such as rounds = 60; the parser says: {cut(what, 100)}. Correct it."
    if what.startswith(_TWICE):
        advice = "A key or table is given twice: keep one."
    return f"{source} has 1 error:\n  {spot}: {advice}"
