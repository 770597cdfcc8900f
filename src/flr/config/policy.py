"""What a site agrees to: `policy.toml`, read and checked as a config is.

A key that is left out agrees to everything, an empty list to nothing. Code of others is another
matter: a site imports what it has named itself, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError, model_validator

from flr.config.entry import STRICT, ConfigEntry, parse_entry, validate
from flr.config.errors import ConfigProblem, ProblemsError, cut, translate
from flr.config.fields import Count
from flr.config.load import in_words, plain_tree, read_toml
from flr.config.settings import Config
from flr.config.toml_lines import Place
from flr.core import registry
from flr.core.errors import ConfigError
from flr.core.registry import nearest

NAME = "policy.toml"
WEIGHTS = "weights"  # in `arrays`: those of the model
FIT = "fit"

Names = tuple[str, ...] | None


class Policy(BaseModel):
    """The runs that a site takes part in."""

    model_config = STRICT

    methods: Names = None  # all that a run stacks or has inside must be among them
    tasks: Names = None  # what a site may be asked to do
    arrays: Names = None  # what may leave: "weights", and names as `flr describe` has them
    rounds: Count | None = None  # of one run, as the server announces it
    replies: Count | None = None  # with arrays, in one run, as the site itself counts them
    bytes: Count | None = None  # of the arrays in one reply
    per_hour: Count | None = None  # replies with arrays, of all runs, as the site counts them
    backbones: Names = None  # pretrained networks by name, "timm" or "timm:resnet50"
    code: tuple[str, ...] = ()  # of others that a run may import, "module:function"

    @model_validator(mode="after")
    def _known_names(self) -> Policy:
        """A slip would refuse what was meant to be agreed to."""
        found = []
        for key, kind in (("methods", "method"), ("backbones", "backbone")):
            known = registry.entries(kind)
            for index, name in enumerate(getattr(self, key) or ()):
                if not _among(tuple(known), name):
                    text = f"is not known.{nearest(name, known)} Known: {', '.join(known)}."
                    found.append(ConfigProblem((key, index), f"{text} Correct or remove it."))
        if found:
            raise ProblemsError(found)
        return self


def load(path: Path) -> Policy:
    """Reads a policy and checks all of it at once; ConfigError with every mistake."""
    raw, where = read_toml(path)
    problems: list[ConfigProblem] = []
    tree: dict[str, Any] = plain_tree(raw, (), problems)
    try:
        policy = validate(Policy, tree)
    except ValidationError as error:
        problems += translate(error, Policy, _unknown_key)
    if problems:
        raise ConfigError(in_words(problems, tree, cut(str(path), 300), where))
    return policy


def _unknown_key(place: Place) -> str:
    known = list(Policy.model_fields)
    near = nearest(str(place[-1]), known)
    return f"is not known.{near} Known: {', '.join(known)}. Correct or remove it."


def objections(policy: Policy, config: Config, task: str = FIT) -> Iterator[str]:
    """Why a site with this policy takes no part in a run, or does not do a task of it."""
    method = config.build_method()
    asked = {
        "methods": list(method_names(config.method)),
        "tasks": [FIT, *method.tasks(), task],
        "arrays": [WEIGHTS, *(declared.name for declared in method.traits.sends)],
        "backbones": [_short(entry) for entry in config.backbones() if not entry.is_code],
    }
    for key, names in asked.items():
        agreed: Names = getattr(policy, key)
        if agreed is None:
            continue
        fits = _among if key == "backbones" else tuple.__contains__
        odd = [name for name in dict.fromkeys(names) if not fits(agreed, name)]
        if odd:
            some = f"no {key}" if not agreed else f"the {key} {', '.join(agreed)}"
            yield f"its policy agrees to {some}; this run has {', '.join(odd)}"
    if policy.rounds is not None and config.rounds > policy.rounds:
        yield f"its policy agrees to {policy.rounds} rounds; this run has {config.rounds}"
    named = dict.fromkeys(map(_imported, config.code()))
    if odd := [name for name in named if name not in policy.code]:
        listed = ", ".join(policy.code) or "none"
        yield (
            f"it imports code that its policy names ({listed}) and no other; this run has "
            f"{', '.join(odd)}. If it may run there: `code` in the policy.toml of its state-dir"
        )


def method_names(entries: Iterable[ConfigEntry]) -> Iterator[str]:
    """The methods of a stack, and those that one of them has inside."""
    for entry in entries:
        yield entry.name
        inner = entry.options.get("inner", [])
        if "inner" in registry.get("method", entry.name).fixed:
            continue  # as its name says
        for one in inner if isinstance(inner, list) else [inner]:
            yield str(one.get("name", "fedavg")) if isinstance(one, dict) else str(one)


def _imported(entry: ConfigEntry) -> str:
    return str(entry.options["partitioner"]) if entry.kind == "partition" else entry.name


def _short(entry: ConfigEntry) -> str:
    model = entry.options.get("model")
    return f"{entry.name}:{model}" if model else entry.name


def _among(agreed: tuple[str, ...], name: str) -> bool:
    """Some backbones are whole collections: the name of one agrees to all of it."""
    return name in agreed or name.split(":")[0] in agreed


def example() -> str:
    """A policy to begin with: methods that send weights and nothing else, and no code of others."""
    names = registry.entries("method")
    made = {name: parse_entry("method", name, default=name).build() for name in names}
    quiet = [name for name, method in made.items() if not (method.traits.sends or method.tasks())]
    listed = ",\n".join(f'    "{name}"' for name in quiet)
    return _EXAMPLE.replace("METHODS", listed)


_EXAMPLE = """\
# What this site agrees to. Its node refuses everything else, and the server is told why.
# A key that is left out agrees to everything (`code`: to nothing), an empty list to nothing.

# Methods, also those inside others; `flr describe NAME` says what each sends. These send the
# weights of the model, the number of samples, and nothing else.
methods = [
METHODS,
]

# What the site may be asked to do: "fit" is to train; some methods have other tasks.
tasks = ["fit"]

# What may leave: "weights", and names under "Leaves the site" of `flr describe`.
arrays = ["weights"]

# Of one run: rounds, as the server announces them, and replies with arrays, as the site counts
# them in its own ledger, whatever the server says. A resumed run repeats a round.
rounds = 500
replies = 600

# Bytes of the arrays in one reply, and replies with arrays in an hour, of all runs together.
# bytes = 100_000_000
# per_hour = 360

# Pretrained networks that make features here; of timm and huggingface, all or "timm:resnet50".
# backbones = ["efficientnet-lite0"]

# Code of packages on this machine that a run may name, as "module:function", and the site imports.
code = []
"""
