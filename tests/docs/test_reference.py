"""The reference pages say what the code says: nothing missing, nothing left over."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

import flr.aggregate
import flr.methods
from flr.config import Config, ConfigEntry, Data, Eval, ScenarioConfig, Train, preset
from flr.core import registry
from flr.report import describe

EQUATIONS = "docs/reference/equations.md"
METHODS = "docs/reference/methods.md"
CONFIG = "docs/reference/config.md"
SECTIONS = ("data", "scenario", "partition", "noise", "attack", "train", "eval")
SHARED = (
    "class_directions",
    "feature_clusters",
    "label_variables",
    "lid",
    "mixmatch",
    "mixtures",
    "noisy_clients",
    "selection",
    "soft_labels",
)
MODULES = [
    *(f"flr.methods.shared.{name}" for name in SHARED),
    "flr.report.memorization",
    *(f"flr.methods.{info.name}" for info in pkgutil.iter_modules(flr.methods.__path__)),
]
RULES = [f"flr.aggregate.{info.name}" for info in pkgutil.iter_modules(flr.aggregate.__path__)]


def shown(default: object) -> str:
    """A default as the pages write it."""
    if default is None:
        return "–"
    if default == "required":
        return "required"
    if isinstance(default, ConfigEntry):
        return f'`"{default.name}"`'
    if default == ():
        return "`[]`"
    return f"`{describe.toml_value(default)}`"


def defaults(model: type[BaseModel]) -> dict[str, str]:
    found = {}
    for name, field in model.model_fields.items():
        default = field.get_default(call_default_factory=True)
        default = "required" if default is PydanticUndefined else default
        default = default[0] if name == "method" else default
        found[name] = shown(default)
    return found


def options(entry: registry.Entry) -> dict[str, str]:
    return {o.name: shown(o.default) for o in describe.options(entry)}


def documented(rows: dict[str, list[str]]) -> dict[str, str]:
    return {key: cells[1] for key, cells in rows.items()}


def test_config_keys_and_defaults_of_the_sections(tables):
    page = tables(CONFIG)
    top = {key: text for key, text in defaults(Config).items() if key not in SECTIONS}
    assert documented(page["Top level"]) == top
    data = defaults(Data)
    assert documented(page["[data]"]) == {"name": data.pop("source"), **data}
    for heading, model in (("[scenario]", ScenarioConfig), ("[train]", Train), ("[eval]", Eval)):
        assert documented(page[heading]) == defaults(model), heading


def test_config_options_of_every_registered_name(tables):
    page = tables(CONFIG)
    kinds = [kind for kind in registry.KINDS if kind != "method"]
    expected = {
        f"{kind} {entry.name}": options(entry)
        for kind in kinds
        for entry in registry.entries(kind).values()
        if entry.factory.__module__.startswith("flr.")
    }
    found = {h: documented(rows) for h, rows in page.items() if h.split()[0] in kinds}
    assert found == expected


def test_presets(tables):
    page = tables(CONFIG)["Presets"]
    names = [name for name in preset.known() if not name.startswith("equal-budget")]  # in words
    expected: dict[str, list[str]] = {}
    for place, name in enumerate(names):
        tree = preset.read(name)
        tree.pop("methods")  # too many for a page, which names the file
        for key, value in flat(tree):
            expected.setdefault(key, ["–"] * len(names))[place] = shown(value)
    assert page == expected


def flat(tree: dict[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Every value by its dotted key."""
    for key, value in tree.items():
        if isinstance(value, dict) and "name" not in value:  # what has a name is one choice
            yield from flat(value, f"{above}{key}.")
        else:
            yield above + key, value


def own_methods() -> dict[str, registry.Entry]:
    entries = registry.entries("method")
    return {n: e for n, e in entries.items() if e.factory.__module__.startswith("flr.")}


def test_every_method_has_a_section_and_every_section_is_a_method(tables):
    assert set(tables(METHODS)) - {"Methods"} == set(own_methods())


@pytest.mark.parametrize("name", own_methods())
def test_methods_settings(name, tables, root):
    entry, page = own_methods()[name], tables(METHODS)
    if not entry.fixed:
        assert documented(page[name]) == options(entry)
        return
    text = (root / METHODS).read_text().split(f"## `{name}`")[1].split("\n## ")[0]
    for key, value in entry.fixed.items() if name != "global" else ():
        assert f"`{key} = {describe.toml_value(value)}`" in text.replace("\n", " ")


def test_equations_can_be_imported_and_have_these_arguments(tables):
    rows = {name: cells for part in tables(EQUATIONS).values() for name, cells in part.items()}
    assert rows
    for name, cells in rows.items():
        module, _, attribute = name.rpartition(".")
        function = getattr(importlib.import_module(module), attribute)
        assert ", ".join(inspect.signature(function).parameters) == cells[0], name


def test_no_equation_is_missing(tables):
    listed = {name for part in tables(EQUATIONS).values() for name in part}
    for name in MODULES:
        module = importlib.import_module(name)
        for attribute, function in inspect.getmembers(module, inspect.isfunction):
            own = function.__module__ == name and not attribute.startswith("_")
            if own and is_pure(function):
                assert f"{name}.{attribute}" in listed


def test_no_rule_is_missing(tables):
    listed = {name for part in tables(EQUATIONS).values() for name in part}
    for name in RULES:
        module = importlib.import_module(name)
        for attribute, function in inspect.getmembers(module, inspect.isfunction):
            own = function.__module__ == name and not attribute.startswith("_")
            if own and function.__annotations__["return"] in ("Tensor", "Arrays", "int"):
                assert f"{name}.{attribute}" in listed


def is_pure(function) -> bool:
    """Whether it works on tensors and numbers alone."""
    words = " ".join(str(annotation) for annotation in function.__annotations__.values())
    return not any(word in words for word in ("Client", "Server", "Module"))
