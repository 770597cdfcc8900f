"""Several methods as one: `method = ["flr", "fedprox"]`. There are no classes for combinations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor, nn

from flr.arrays import Arrays
from flr.contract import Batch, Client, Declared, Method, Reply, Server, Task
from flr.errors import ConfigError

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


@dataclass(frozen=True)
class Stack(Method):
    """Begin, finish and the like run for all parts; terms add up; other hooks have one owner."""

    parts: tuple[Method, ...]

    def __post_init__(self) -> None:
        # These are class variables of a method, but a stack's depend on its parts.
        joined = {
            "models": max(part.models for part in self.parts),
            "sends": _joined(part.sends for part in self.parts),
            "receives": _joined(part.receives for part in self.parts),
            "keeps": _joined(part.keeps for part in self.parts),
            "cost": "; ".join(dict.fromkeys(part.cost for part in self.parts)),
            "individual": any(part.individual for part in self.parts),
            "aggregates": any(part.aggregates for part in self.parts),
            "supervised": any(part.supervised for part in self.parts),
        }
        for name, value in joined.items():
            object.__setattr__(self, name, value)

    def _owner(self, hook: str) -> Method | None:
        return next((part for part in self.parts if _owns(part, hook)), None)

    def check(self, config: Config) -> Iterable[str]:
        return [reason for part in self.parts for reason in part.check(config)]

    def begin(self, c: Client) -> None:
        for part in self.parts:
            part.begin(c)

    def batches(self, c: Client, epoch: int) -> Iterator[Batch]:
        owner = self._owner("batches")
        return owner.batches(c, epoch) if owner else super().batches(c, epoch)

    def criterion(self, c: Client, logits: Tensor, b: Batch) -> Tensor:
        owner = self._owner("criterion")
        return owner.criterion(c, logits, b) if owner else super().criterion(c, logits, b)

    def regularise(self, c: Client, net: int, logits: Tensor, b: Batch) -> Tensor | float:
        total: Tensor | float = 0.0
        for part in self.parts:
            total = total + part.regularise(c, net, logits, b)
        return total

    def loss(self, c: Client, b: Batch) -> Tensor:
        owner = self._owner("loss")
        return owner.loss(c, b) if owner else super().loss(c, b)

    def penalty(self, c: Client, net: int) -> Tensor | float:
        total: Tensor | float = 0.0
        for part in self.parts:
            total = total + part.penalty(c, net)
        return total

    def finish(self, c: Client) -> Arrays:
        return {name: array for part in self.parts for name, array in part.finish(c).items()}

    def tasks(self) -> dict[str, Callable[[Client], Arrays]]:
        return {name: task for part in self.parts for name, task in part.tasks().items()}

    def start(self, s: Server) -> None:
        for part in self.parts:
            part.start(s)

    def plan(self, s: Server) -> Task | None:
        owner = self._owner("plan")
        return owner.plan(s) if owner else super().plan(s)

    def reduce(self, s: Server, task: Task, replies: list[Reply]) -> None:
        owner = self._owner("reduce")
        return owner.reduce(s, task, replies) if owner else super().reduce(s, task, replies)

    def result(self, s: Server) -> Arrays:
        owner = self._owner("result")
        return owner.result(s) if owner else super().result(s)

    def predict(self, models: nn.ModuleList, x: Tensor) -> Tensor:
        owner = self._owner("predict")
        return owner.predict(models, x) if owner else super().predict(models, x)


def _owns(part: Method, hook: str) -> bool:
    return getattr(type(part), hook) is not getattr(Method, hook)


def _joined(declared: Iterable[tuple[Declared, ...]]) -> tuple[Declared, ...]:
    return tuple(one for several in declared for one in several)


def _twice(methods: Sequence[Method]) -> list[str]:
    """Two values of one class would share their state; flr and its alias slr are one class."""
    names = [type(part).__name__ for part in methods]
    again = sorted({name for name in names if names.count(name) > 1})
    return [f"{name} is in the stack twice (perhaps by an alias): keep one" for name in again]


def _rivals(methods: Sequence[Method]) -> list[str]:
    problems = []
    for hook in OWNED:
        owners = _names(part for part in methods if _owns(part, hook))
        if len(owners) > 1:
            problems.append(f"{_and(owners)} define {hook}(): choose one")
    return problems


def _shared_names(methods: Sequence[Method]) -> list[str]:
    """What is sent, received, kept or asked for is told apart by name only."""
    problems = []
    for verb in ("send", "receive", "keep", "answer"):
        users: dict[str, list[Method]] = {}
        for part in methods:
            for name in _said(part, verb):
                users.setdefault(name, []).append(part)
        for name, sharing in users.items():
            owners = _names(sharing)
            if len(owners) > 1:
                problems.append(f'{_and(owners)} {verb} "{name}": choose one')
    return problems


def _said(part: Method, verb: str) -> list[str]:
    if verb == "answer":
        return list(part.tasks())
    declared = {"send": part.sends, "receive": part.receives, "keep": part.keeps}[verb]
    return [one.name for one in declared]


def _names(methods: Iterable[Method]) -> list[str]:
    return list(dict.fromkeys(type(part).__name__ for part in methods))


def _and(names: list[str]) -> str:
    count = "both" if len(names) == 2 else "all"
    return f"{', '.join(names[:-1])} and {names[-1]} {count}"
