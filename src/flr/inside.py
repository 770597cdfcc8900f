"""A method around another: `{ name = "fedcorr", inner = ["flr", "fedprox"] }`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from flr.arrays import Arrays
from flr.config.choice import choose
from flr.config.problems import ProblemsError
from flr.contract import Batch, Client, Method, Reply, Server, Task
from flr.errors import ConfigError
from flr.stack import parts_of, stack

if TYPE_CHECKING:
    from flr.config import Config


@dataclass(frozen=True)
class Around(Method):
    """Leaves every hook but `plan` to an inner method; subclasses add to that."""

    inner: str | dict[str, Any] | list[Any] = field(default="fedavg", hash=False)
    part: Method = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        part = build(self.inner)
        # These are class variables of a method, but here they depend on the inner one.
        joined = {
            "part": part,
            "models": part.models,
            "sends": self.sends + part.sends,
            "receives": self.receives + part.receives,
            "keeps": self.keeps + part.keeps,
            "cost": f"{part.cost}; {self.cost}",
            "individual": self.individual or part.individual,
            "aggregates": self.aggregates or part.aggregates,
            "supervised": self.supervised or part.supervised,
        }
        for name, value in joined.items():
            object.__setattr__(self, name, value)

    def owns(self, hook: str) -> bool:
        """Whether the inner method has a hook of its own."""
        return any(getattr(type(p), hook) is not getattr(Method, hook) for p in parts_of(self.part))

    def check(self, config: Config) -> Iterable[str]:
        return self.part.check(config)

    def begin(self, c: Client) -> None:
        self.part.begin(c)

    def batches(self, c: Client, epoch: int) -> Iterator[Batch]:
        return self.part.batches(c, epoch)

    def criterion(self, c: Client, logits: Tensor, b: Batch) -> Tensor:
        return self.part.criterion(c, logits, b)

    def regularise(self, c: Client, net: int, logits: Tensor, b: Batch) -> Tensor | float:
        return self.part.regularise(c, net, logits, b)

    def loss(self, c: Client, b: Batch) -> Tensor:
        return self.part.loss(c, b)

    def penalty(self, c: Client, net: int) -> Tensor | float:
        return self.part.penalty(c, net)

    def finish(self, c: Client) -> Arrays:
        return self.part.finish(c)

    def tasks(self) -> dict[str, Callable[[Client], Arrays]]:
        return self.part.tasks()

    def start(self, s: Server) -> None:
        self.part.start(s)

    def reduce(self, s: Server, task: Task, replies: list[Reply]) -> None:
        self.part.reduce(s, task, replies)

    def result(self, s: Server) -> Arrays:
        return self.part.result(s)

    def predict(self, models: nn.ModuleList, x: Tensor) -> Tensor:
        return self.part.predict(models, x)


def build(raw: str | dict[str, Any] | list[Any]) -> Method:
    """The method that a name, a table or a list of those means, if it can be inside another."""
    several = raw if isinstance(raw, list) else [raw]
    try:
        method = stack([choose("method", one, default="fedavg").build() for one in several])
    except ProblemsError as error:
        raise ConfigError("; ".join(_words(p.at, p.text, p.head) for p in error.found)) from None
    for part in parts_of(method):
        if type(part).plan is not Method.plan:
            raise ConfigError(
                f"inner cannot be {type(part).__name__}: it says by itself whom to ask for what "
                "(plan()). Use a method that does not."
            )
    return method


def _words(at: tuple[int | str, ...], text: str, head: str) -> str:
    return text if head == "none" else f"{'.'.join(map(str, ('inner', *at)))} {text}"
