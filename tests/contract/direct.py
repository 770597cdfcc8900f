"""Flower without its network: real messages, serialised and back, handed to a real ClientApp."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.common.config import flatten_dict
from flwr.serverapp import Grid
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    no_object_id_recompute,
)
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.task_identity import TaskIdentity

from flr.config import policy
from flr.flower.apps import client_app
from flr.flower.server import serve
from flr.flower.site_config import state_dir

POLICY = Path(__file__).with_name("policy.toml")


class DirectGrid(Grid):
    """Every message crosses the wire format; answers come in an order of their own."""

    def __init__(
        self, nodes: Mapping[int, Mapping[str, Any]], app: ClientApp | None = None
    ) -> None:
        TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = (
            1  # as Flower's own processes do
        )
        self.nodes, self.app = dict(nodes), app or client_app()
        self.replies: dict[str, Message] = {}
        self.messages: list[Message] = []

    def set_run(self, run: Any) -> None:
        raise NotImplementedError

    @property
    def run(self) -> Any:
        raise NotImplementedError

    def create_message(self, *args: Any, **options: Any) -> Message:
        raise NotImplementedError

    def get_node_ids(self) -> Iterable[int]:
        return list(self.nodes)

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        numbers = []
        for message in messages:
            sent = across(message)
            self.messages.append(sent)
            config = with_policy(self.nodes[message.metadata.dst_node_id])
            context = Context(1, message.metadata.dst_node_id, config, RecordDict(), {})
            number = sent.metadata.message_id
            self.replies[number] = across(self.app(sent, context), number)
            numbers.append(number)
        return numbers

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        wanted = [number for number in message_ids if number in self.replies]
        return [self.replies.pop(number) for number in reversed(wanted)]

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Any:
        return self.pull_messages(self.push_messages(messages))


def with_policy(own: Mapping[str, Any]) -> dict[str, Any]:
    """A node config as it is, or with the policy of the tests where the site has none."""
    has_one = "agent" in own or "policy" in own or (state_dir(own) / policy.NAME).exists()
    return dict(own) if has_one else {"policy": str(POLICY), **own}


def across(message: Message, replies_to: str | None = None) -> Message:
    """The message as the other side gets it: from bytes."""
    with no_object_id_recompute():
        number = message.object_id
        contents = {key: part.deflate() for key, part in get_all_nested_objects(message).items()}
    other: Any = inflate_object_from_contents(number, contents)
    other.metadata.__dict__["_message_id"] = number
    if replies_to is not None:
        other.metadata.__dict__["_reply_to_message_id"] = replies_to
    return other


def run_config(config: Mapping[str, Any], out: Path, **flower: Any) -> dict[str, Any]:
    """The flat run config of an experiment, as `flwr run` makes it; it has no lists."""
    tree = {**config, "flower": {"out": str(out), **flower}}
    lists = {key: value for key, value in tree.items() if isinstance(value, list)}
    plain = {key: value for key, value in tree.items() if key not in lists}
    return flatten_dict({**plain, "set": "; ".join(f"{k}={v}" for k, v in lists.items())})


def train_on_flower(config: Mapping[str, Any], out: Path, state: Path, sites: int) -> DirectGrid:
    """A whole run with the sites of the config's scenario, nodes in no particular order."""
    numbers = [(7 * k + 3) % sites for k in range(sites)]
    grid = DirectGrid(
        {1000 - k: {"partition-id": n, "state-dir": str(state)} for k, n in enumerate(numbers)}
    )
    serve(grid, run_config(config, out))
    return grid
