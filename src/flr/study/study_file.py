"""A study of one's own as TOML: a base config, and what is varied over it.

`[grid]` has a list of values for any key of a config; all combinations are run. What decides which
labels are wrong (data, partition, noise, attack, scenario) makes the columns of the table, and all
else its rows, which are compared within each column. `[rows.NAME]` and `[settings.NAME]` are the
same as lists: a title and sections of a config.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, ValidationError

from flr.config.entry import STRICT, validate
from flr.config.errors import ConfigProblem, cut, show, translate
from flr.config.load import in_words, plain_tree, read_toml
from flr.config.overrides import Where, dotted
from flr.config.settings import Seed
from flr.config.toml_lines import Place
from flr.core import registry
from flr.core.arrays import canonical_json
from flr.core.errors import ConfigError
from flr.core.registry import nearest
from flr.study.experiment import WORDS, Experiment, merge

COLUMNS = ("data", "partition", "noise", "attack", "scenario")
PART_WORDS = {"rows": ("title", "only", "trials"), "settings": ("title", "trials")}
Tree = Mapping[str, Any]


class Study(BaseModel):
    """The keys of a study file."""

    model_config = STRICT

    title: str = ""
    base: str | None = None
    seeds: Annotated[tuple[Seed, ...], Field(min_length=1)] = (1, 2, 3)
    score: str = "last10"
    better: Literal["higher", "lower"] = "higher"
    reference: str | None = None
    keep: bool = True
    config: dict[str, Any] = Field(default_factory=dict)
    grid: dict[str, Any] = Field(default_factory=dict)
    rows: dict[str, dict[str, Any]] = Field(default_factory=dict)
    settings: dict[str, dict[str, Any]] = Field(default_factory=dict)


def load(study: str | Path | Tree, name: str = "study") -> Experiment:
    """Reads a study and checks every run of it, before any is trained.

    Args:
        study: A TOML file, or a mapping like one, whose paths are seen from here.
        name: What a mapping is called; a file is called by its name.

    Raises:
        ConfigError: Every mistake of the file and of all configs that come of it.

    Example:
        >>> load({"grid": {"method": ["fedavg", "flr"]}, "config": {"rounds": 20}}).rows
    """
    lines: dict[Place, Where] = {}
    folder = Path()
    if isinstance(study, Mapping):
        raw, source = dict(study), name
    else:
        path = Path(study)
        raw, lines = read_toml(path)
        name, source, folder = path.stem, cut(str(path), 300), path.parent
    problems: list[ConfigProblem] = []
    tree = plain_tree(raw, (), problems)
    found = _validated(tree, problems)
    if found is not None:
        problems += _mistakes(found)
    if problems or found is None:
        raise ConfigError(in_words(problems, tree, source, lines))
    below = merge(_base(found, folder), found.config)
    experiment = Experiment(name, _document(found, name, below))
    _check_every_run(experiment, source)
    return experiment


def _validated(tree: Any, problems: list[ConfigProblem]) -> Study | None:
    known = list(Study.model_fields)

    def unknown_key(place: Place) -> str:
        near = nearest(str(place[-1]), known)
        return f"is not known in a study.{near} Known: {', '.join(known)}. Correct or remove it."

    try:
        return validate(Study, tree)
    except ValidationError as error:
        problems += translate(error, Study, unknown_key)
        return None


def _mistakes(study: Study) -> Iterator[ConfigProblem]:
    """What types alone cannot see."""
    if len(set(study.seeds)) < len(study.seeds):
        yield ConfigProblem(("seeds",), "has a seed twice. Leave one of them out.")
    for key, values in dotted(study.grid):
        place = ("grid", *key.split("."))
        if key in ("seed", "seeds"):
            yield ConfigProblem(place, "stands at the top of a study: seeds = [1, 2, 3].", "key")
        elif not isinstance(values, list) or not values:
            yield ConfigProblem(place, "should be a list of values, such as [0.01, 0.1].")
        elif len({canonical_json(value) for value in values}) < len(values):
            yield ConfigProblem(place, "has a value twice. Leave one of them out.")
    for section, parts in (("rows", study.rows), ("settings", study.settings)):
        for name, part in parts.items():
            wrong = [key for key in part if key in WORDS and key not in PART_WORDS[section]]
            for key in (*wrong, *(["seed"] if "seed" in part else [])):
                place = (section, name, key)
                yield ConfigProblem(place, "is not known here. Correct or remove it.", "key")
            yield from _wrong_words((section, name), part)


def _wrong_words(place: Place, part: Tree) -> Iterator[ConfigProblem]:
    if not isinstance(part.get("title", ""), str):
        yield ConfigProblem((*place, "title"), "should be text in quotes.")
    only = part.get("only", [])
    if not isinstance(only, list) or not all(isinstance(each, str) for each in only):
        yield ConfigProblem((*place, "only"), "should be a list of names of settings.")
    trials = part.get("trials", 1)
    if not isinstance(trials, int) or isinstance(trials, bool) or trials < 1:
        yield ConfigProblem((*place, "trials"), "should be how many of the seeds it is run with.")


def _base(study: Study, folder: Path) -> Tree:
    return {} if study.base is None else read_toml(folder / study.base)[0]


def _document(study: Study, name: str, below: Tree) -> Tree:
    """The study as an experiment has it; no key of `below` but the seed is replaced here."""
    axes = dict(dotted(study.grid))
    columns = {key: axes.pop(key) for key in list(axes) if key.split(".")[0] in COLUMNS}
    settings = _crossed(study.settings, columns) or {"all": {"title": _name_of(below)}}
    rows = _crossed(study.rows, axes) or {_method_key(below): {"title": _method_title(below)}}
    for row in rows.values():
        if "only" in row:
            row["only"] = [key for named in row["only"] for key in _meant(named, settings)]
    reference = study.reference or next(iter(rows))
    if reference not in rows:
        raise ConfigError(registry.unknown("the row of reference", reference, rows))
    return {
        "title": study.title or name,
        "score": study.score,
        "better": study.better,
        "reference": reference,
        "keep": study.keep,
        "seeds": study.seeds,
        "config": {key: value for key, value in below.items() if key != "seed"},
        "rows": rows,
        "settings": settings,
        "varied": [*columns, *axes],
    }


def _meant(name: str, settings: Mapping[str, Any]) -> list[str]:
    """The settings of that name; of one that a grid has multiplied, all."""
    found = [key for key in settings if f"{key}, ".startswith(f"{name}, ")]
    if not found:
        raise ConfigError(registry.unknown("the setting", name, settings))
    return found


def _crossed(parts: Mapping[str, Tree], axes: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """Every part with every combination of the axes' values."""
    named = [[(key, part.get("title", key), part) for key, part in parts.items()]] if parts else []
    named += [list(_points(key, values)) for key, values in axes.items()]
    found: dict[str, Any] = {}
    for combination in product(*named) if named else ():
        tree: dict[str, Any] = {}
        for _, _, layer in combination:
            tree = merge(tree, layer)
        title = ", ".join(title for _, title, _ in combination)
        found[", ".join(key for key, _, _ in combination)] = tree | {"title": title}
    return found


def _points(key: str, values: Sequence[Any]) -> Iterator[tuple[str, str, Tree]]:
    """Key, title and config of each value on an axis."""
    for value in values:
        layer: Any = value
        for part in reversed(key.split(".")):
            layer = {part: layer}
        yield _said(key, value, values), _said(key, value, values, titles=True), layer


def _said(key: str, value: Any, values: Sequence[Any], titles: bool = False) -> str:
    """A value by its name, with those options in which it differs from its namesakes."""
    last = key.rpartition(".")[2]
    if key == "method" and isinstance(value, list):
        return "+".join(_said(key, each, [each], titles) for each in value)
    table, name = _table(value), _named(key, value, titles)
    if name is None:
        return f"{last} = {show(value)}"
    alike = [_table(other) for other in values if _named(key, other) == _named(key, value)]
    named = ("name", "kind")
    own = {k: v for k, v in table.items() if k not in named and any(o.get(k) != v for o in alike)}
    options = ", ".join(f"{k} = {show(v)}" for k, v in own.items())
    return f"{name} ({options})" if options else name


def _table(value: Any) -> Tree:
    return value if isinstance(value, Mapping) else {}


def _named(key: str, value: Any, titles: bool = False) -> str | None:
    """The name in a value that has one: of a method, a noise, a network..."""
    table = _table(value)
    name = value if isinstance(value, str) else table.get("name", table.get("kind"))
    if not isinstance(name, str):
        return None
    if titles and name == "none":
        return f"no {key}"
    known = registry.entries("method") if titles and key == "method" else {}
    return known[name].title if name in known else name


def _name_of(below: Tree) -> str:
    """The one column of a study that varies rows alone."""
    return _said("noise", below.get("noise", "none"), [], titles=True)


def _method_key(below: Tree) -> str:
    return _said("method", below.get("method", "flr"), [])


def _method_title(below: Tree) -> str:
    return _said("method", below.get("method", "flr"), [], titles=True)


def _check_every_run(experiment: Experiment, source: str) -> None:
    """All mistakes of all configs at once, each with the first run that has it."""
    found: dict[str, str] = {}
    for place in experiment.places(experiment.seeds[:1]):
        try:
            experiment.config(place)
        except ConfigError as error:
            row, setting = experiment.rows[place.row], experiment.settings[place.setting]
            for line in _problems(str(error)):
                found.setdefault(line, f"  {row.title}, {setting.title}: {line}")
    if found:
        count = "1 mistake" if len(found) == 1 else f"{len(found)} mistakes"
        raise ConfigError(
            f"{source}: expected settings that can be run; {count} in what comes of it:\n"
            + "\n".join(found.values())
        )


def _problems(text: str) -> Iterable[str]:
    """The lines of a config's message below its head."""
    head, *lines = text.splitlines()
    return [line.strip() for line in lines] or [head]
