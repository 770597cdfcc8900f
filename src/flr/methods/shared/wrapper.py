"""A method around another: `{ name = "fedcorr", inner = ["flr", "fedprox"] }`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

from flr.config.entry import parse_entry
from flr.config.errors import ProblemsError
from flr.core.combine import parts_of, stack
from flr.core.contract import Method
from flr.core.errors import ConfigError
from flr.core.traits import Traits


def _inner(hook: str) -> Callable[..., Any]:
    """A hook that is left to the inner method."""

    def call(self: Wrapper, *args: Any, **named: Any) -> Any:
        return getattr(self.part, hook)(*args, **named)

    return call


@dataclass(frozen=True)
class Wrapper(Method):
    """Leaves every hook but `plan` to an inner method, `part`; subclasses add to that.

    Args:
        inner: A name, a table or a list of those, as in a config.

    Example:
        >>> from dataclasses import dataclass
        >>> from flr.plugin import Wrapper
        >>> @dataclass(frozen=True)
        ... class Twice(Wrapper):
        ...     def regularize(self, c, net, logits, b):
        ...         return 2 * self.part.regularize(c, net, logits, b)
        >>> Twice(inner={"name": "flr", "lam": 3.0}).part.lam
        3.0
    """

    check = _inner("check")
    begin = _inner("begin")
    batches = _inner("batches")
    criterion = _inner("criterion")
    regularize = _inner("regularize")
    loss = _inner("loss")
    penalty = _inner("penalty")
    finish = _inner("finish")
    tasks = _inner("tasks")
    start = _inner("start")
    reduce = _inner("reduce")
    result = _inner("result")
    predict = _inner("predict")
    sample_predictions = _inner("sample_predictions")

    inner: str | dict[str, Any] | list[Any] = field(default="fedavg", hash=False)

    own_traits: ClassVar[Traits] = Traits()  # what the wrapper adds to those of the inner method

    def __post_init__(self) -> None:
        _ = self.part  # so that a mistake in `inner` shows when the method is made

    @cached_property
    def part(self) -> Method:
        """The inner method."""
        return build(self.inner)

    @cached_property
    def traits(self) -> Traits:
        joined = Traits.joined([self.part.traits, self.own_traits])
        return replace(joined, revision=self.own_traits.revision)


def build(raw: str | dict[str, Any] | list[Any]) -> Method:
    """The method that a name, a table or a list of those means, if it can be inside another."""
    several = raw if isinstance(raw, list) else [raw]
    try:
        method = stack([parse_entry("method", one, default="fedavg").build() for one in several])
    except ProblemsError as error:
        raise ConfigError("; ".join(_words(p.at, p.text, p.head) for p in error.found)) from None
    for part in parts_of(method):
        if part.owns("plan"):
            raise ConfigError(
                f"inner cannot be {type(part).__name__}: it says by itself whom to ask for what "
                "(plan()). Use a method that does not."
            )
    return method


def _words(at: tuple[int | str, ...], text: str, head: str) -> str:
    return text if head == "none" else f"{'.'.join(map(str, ('inner', *at)))} {text}"
