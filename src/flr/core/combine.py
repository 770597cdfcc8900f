"""Several methods as one: `method = ["flr", "fedprox"]`. There are no classes for combinations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from torch import Tensor

from flr.core.arrays import Arrays
from flr.core.contract import Batch, Client, Method, SamplePredictions, Server
from flr.core.errors import ConfigError
from flr.core.traits import Traits

if TYPE_CHECKING:
    from flr.config import Config

OWNED = ("batches", "criterion", "loss", "plan", "reduce", "result", "predict")


def stack(methods: Sequence[Method]) -> Method:
    """Joins methods that do not contradict each other; a single one is returned as it is."""
    if not methods:
        raise ConfigError('Expected at least one method; the list is empty. Write method = "flr".')
    if len(methods) == 1:
        return methods[0]
    problems = [*_twice(methods), *_rivals(methods), *_shared_names(methods)]
    if problems:
        raise ConfigError("; ".join(problems))
    return Stack(tuple(methods))


def parts_of(method: Method) -> tuple[Method, ...]:
    """The methods a method is made of: itself, or those it stacks."""
    return method.parts if isinstance(method, Stack) else (method,)


def _by_owner(hook: str) -> Callable[..., Any]:
    """A hook of a stack that goes to the part that defines it, or to FedAvg's."""

    def call(self: Stack, *args: Any, **named: Any) -> Any:
        owner = next((part for part in self.parts if part.owns(hook)), None)
        if owner is None:
            return getattr(Method, hook)(self, *args, **named)
        return getattr(owner, hook)(*args, **named)

    return call


@dataclass(frozen=True)
class Stack(Method):
    """Begin, finish and the like run for all parts; terms add up; other hooks have one owner."""

    parts: tuple[Method, ...]

    batches, criterion, loss, plan, reduce, result, predict = map(_by_owner, OWNED)

    @cached_property
    def traits(self) -> Traits:
        return Traits.joined([part.traits for part in self.parts])

    def owns(self, hook: str) -> bool:
        return any(part.owns(hook) for part in self.parts)

    def check(self, config: Config) -> Iterable[str]:
        return [reason for part in self.parts for reason in part.check(config)]

    def begin(self, c: Client) -> None:
        for part in self.parts:
            part.begin(c)

    def regularize(self, c: Client, net: int, logits: Tensor, b: Batch) -> Tensor | float:
        return sum(part.regularize(c, net, logits, b) for part in self.parts)

    def penalty(self, c: Client, net: int) -> Tensor | float:
        return sum(part.penalty(c, net) for part in self.parts)

    def finish(self, c: Client) -> Arrays:
        return {name: array for part in self.parts for name, array in part.finish(c).items()}

    def tasks(self) -> dict[str, Callable[[Client], Arrays]]:
        return {name: task for part in self.parts for name, task in part.tasks().items()}

    def start(self, s: Server) -> None:
        for part in self.parts:
            part.start(s)

    def sample_predictions(self, state: Arrays, classes: int) -> SamplePredictions | None:
        found = (part.sample_predictions(state, classes) for part in self.parts)
        return next((one for one in found if one is not None), None)


def _twice(methods: Sequence[Method]) -> list[str]:
    """Two values of one class would share their state; flr and its alias slr are one class."""
    names = [type(part).__name__ for part in methods]
    again = sorted({name for name in names if names.count(name) > 1})
    return [f"{name} is in the stack twice (perhaps by an alias): keep one" for name in again]


def _rivals(methods: Sequence[Method]) -> list[str]:
    owners = {hook: [part for part in methods if part.owns(hook)] for hook in OWNED}
    return _several(owners, "define {}(): choose one")


def _shared_names(methods: Sequence[Method]) -> list[str]:
    """What is sent, received, kept or asked for is told apart by name only."""
    problems = []
    for verb in ("send", "receive", "keep", "answer"):
        users: dict[str, list[Method]] = {}
        for part in methods:
            declared = part.traits.by_verb().get(verb)
            names = part.tasks() if declared is None else [one.name for one in declared]
            for name in names:
                users.setdefault(name, []).append(part)
        problems += _several(users, f'{verb} "{{}}": choose one')
    return problems


def _several(users: dict[str, list[Method]], sentence: str) -> list[str]:
    """A sentence for each thing that more than one method lays claim to."""
    found = []
    for what, methods in users.items():
        names = list(dict.fromkeys(type(part).__name__ for part in methods))
        if len(names) > 1:
            who = f"{', '.join(names[:-1])} and {names[-1]} {'both' if len(names) == 2 else 'all'}"
            found.append(f"{who} {sentence.format(what)}")
    return found
