"""Methods that go together, and those that do not."""

# ruff: noqa: ARG005  (hooks have the arguments of the contract)

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn

from flr.core.arrays import Arrays
from flr.core.combine import OWNED, Stack, parts_of, stack
from flr.core.contract import Batch, Client, Method, Server
from flr.core.errors import ConfigError
from flr.core.traits import Declared, Traits


@dataclass(frozen=True)
class Prox(Method):
    mu: float = 0.5
    traits = Traits(
        sends=(Declared("prox.a", (1,), "one number"),),
    )

    def penalty(self, c: Client, net: int) -> Tensor | float:
        return self.mu + net

    def regularize(self, c: Client, net: int, logits: Tensor, b: Batch) -> Tensor | float:
        return logits.sum() * 2

    def begin(self, c: Client) -> None:
        c.scratch["order"] = [*c.scratch.get("order", []), "prox"]

    def finish(self, c: Client) -> Arrays:
        return {"prox.a": torch.ones(1)}

    def start(self, s: Server) -> None:
        s.state["prox"] = torch.ones(1)

    def check(self, config: Any) -> list[str]:
        return ["prox says no"]

    def tasks(self) -> dict[str, Any]:
        return {"count": lambda c: {}}


@dataclass(frozen=True)
class Twin(Method):
    traits = Traits(
        networks=2,
        cost="twice as much",
        keeps=(Declared("twin.k", ("samples",), "a flag"),),
        receives=(Declared("twin.r", (2,), "two numbers"),),
    )

    def penalty(self, c: Client, net: int) -> Tensor | float:
        return 10.0

    def begin(self, c: Client) -> None:
        c.scratch["order"] = [*c.scratch.get("order", []), "twin"]

    def criterion(self, c: Client, logits: Tensor, b: Batch) -> Tensor:
        return logits.sum()

    def predict(self, models: nn.ModuleList, x: Tensor) -> Tensor:
        return x * 2

    def finish(self, c: Client) -> Arrays:
        return {"twin.a": torch.zeros(1)}

    def check(self, config: Any) -> list[str]:
        return ["twin says no"]


class _Client:
    """As much of a client as the hooks here touch."""

    def __init__(self, method: Method) -> None:
        self.method = method
        self.model = [nn.Identity(), nn.Identity()]
        self.scratch: dict[str, Any] = {}


@pytest.fixture
def both() -> Method:
    return stack([Prox(), Twin()])


def test_one_method_is_returned_as_it_is() -> None:
    alone = Prox(mu=3.0)
    assert stack([alone]) is alone
    assert parts_of(alone) == (alone,)


def test_declarations_are_joined(both: Method) -> None:
    assert both.traits.networks == 2
    assert [one.name for one in both.traits.sends] == ["prox.a"]
    assert [one.name for one in both.traits.receives] == ["twin.r"]
    assert [one.name for one in both.traits.keeps] == ["twin.k"]
    assert "twice as much" in both.traits.cost
    assert parts_of(both) == (Prox(), Twin())
    assert set(both.tasks()) == {"count"}
    assert list(both.check(cast(Any, None))) == ["prox says no", "twin says no"]


def test_terms_add_up_and_hooks_go_to_their_owner(both: Method) -> None:
    c = cast(Client, _Client(both))
    batch = Batch(torch.ones(2, 3), torch.zeros(2, dtype=torch.int64), torch.arange(2))
    both.begin(c)
    assert c.scratch["order"] == ["prox", "twin"]
    assert both.penalty(c, 1) == 1.5 + 10.0
    assert set(both.finish(c)) == {"prox.a", "twin.a"}
    assert torch.equal(both.predict(nn.ModuleList(), batch.x), batch.x * 2)
    # the base's loss: for each of two networks, Twin's criterion (6) and Prox's term (12)
    assert both.loss(c, batch).item() == 2 * (6 + 12)


def test_hooks_without_owner_are_the_base_s() -> None:
    both = cast(Stack, stack([Prox(), Method()]))
    assert all(not both.owns(hook) for hook in OWNED)
    server = Server(
        {"model.0.w": torch.ones(1), "x": torch.ones(1)}, {}, 2, 4, 2, 1, cast(Any, None)
    )
    both.start(server)
    assert set(server.state) == {"prox"}
    task = both.plan(server)
    assert task is not None
    assert task.name == "fit"
    assert set(both.result(server)) == {"model.0.w"}


def test_a_stack_is_a_value(both: Method) -> None:
    again = pickle.loads(pickle.dumps(both))
    assert again == both
    assert again.traits.networks == 2
    assert [one.name for one in again.traits.sends] == ["prox.a"]


def _overriding(name: str, hook: str) -> Method:
    body = {hook: lambda self, *rest: None}
    return cast(Method, type(name, (Method,), body)())


@pytest.mark.parametrize("hook", OWNED)
def test_two_owners_are_refused(hook: str) -> None:
    rivals = [_overriding("FLR", hook), Prox(), _overriding("CoTeaching", hook)]
    with pytest.raises(
        ConfigError, match=rf"^FLR and CoTeaching both define {hook}\(\): choose one$"
    ):
        stack(rivals)


def test_three_owners_and_several_hooks_are_named_together() -> None:
    rivals = [_overriding(name, "loss") for name in "ABC"] + [
        _overriding(name, "plan") for name in "DE"
    ]
    with pytest.raises(ConfigError) as caught:
        stack(rivals)
    assert "A, B and C all define loss()" in str(caught.value)
    assert "D and E both define plan()" in str(caught.value)


@pytest.mark.parametrize("field", ["sends", "receives", "keeps"])
def test_shared_array_names_are_refused(field: str) -> None:
    declared = {"traits": Traits(**{field: (Declared("same", (1,), "a number"),)})}
    first, second = (cast(Method, type(name, (Method,), declared)()) for name in "AB")
    with pytest.raises(ConfigError, match=f'A and B both {field[:-1]} "same": choose one'):
        stack([first, second])


def test_shared_tasks_twins_and_nothing_are_refused() -> None:
    first, second = (
        cast(Method, type(name, (Method,), {"tasks": lambda self: {"count": None}})())
        for name in "AB"
    )
    with pytest.raises(ConfigError, match='A and B both answer "count"'):
        stack([first, second])
    with pytest.raises(ConfigError, match="Prox is in the stack twice"):
        stack([Prox(), Prox(mu=2.0)])
    with pytest.raises(ConfigError, match="at least one method"):
        stack([])
