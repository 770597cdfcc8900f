"""Where the clients of one process are trained: each order is a pure function of what it gets.

An answer depends on the method, the site's data, the accepted state and the received arrays; not on
the process, on what was served before, or on who else is served. The in-process engine has one desk
in each worker; a real site has its own.
"""

from __future__ import annotations

import copy
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor, nn

from flr import seeds
from flr.arrays import Arrays
from flr.client import models, pretrained
from flr.client.fit import FIT, load_weights, run_task
from flr.client.state import NoState, StateFiles
from flr.contract import MODEL, Batch, Client, Method, Reply, Server, Site
from flr.data.dataset import site_table
from flr.data.lazy import Inputs
from flr.errors import FlrError, RunError

if TYPE_CHECKING:
    from flr.config import Train

PREDICT_BATCH = 512

log = logging.getLogger("flr")


@dataclass(frozen=True)
class Order:
    """One client's part of a task."""

    task: str
    client: int
    step: int
    round: int
    rounds: int
    version: int | None = None  # of the client's state
    extra: Arrays = field(default_factory=dict)
    predict: bool = False  # a probe wants the trained model's own predictions


@dataclass(frozen=True)
class Look:
    """Samples whose classes somebody wants to know from a model; no client has part in it."""

    view: str  # a name in `Blueprint.views`
    rows: Tensor


Job = Order | Look


@dataclass(frozen=True)
class Answer:
    """A reply, and what only the engine of a simulation sees."""

    reply: Reply
    stateful: bool  # a new version of the state was written
    seconds: float
    predictions: Tensor | None
    problem: str = ""  # why there is no answer, where one site's failure does not end the run


class Sites(Protocol):
    """The sites that a desk may be asked for, by number: all of a simulation, or a node's own."""

    @property
    def classes(self) -> int: ...

    def __getitem__(self, client: int) -> Site: ...


@dataclass(frozen=True)
class Blueprint:
    """Everything a desk is made from; travels to worker processes."""

    method: Method
    sites: Sites
    model: Callable[[tuple[int, ...], int], nn.Module]  # (input_shape, classes)
    input_shape: tuple[int, ...]
    train: Train
    seed: int
    batches: Callable[[Client], Iterator[Batch]]
    state: StateFiles
    views: Mapping[str, Inputs] = field(default_factory=dict)  # what models are looked at with

    def networks(self) -> nn.ModuleList:
        """The networks with the weights that the first round starts from."""
        sizes = (self.input_shape, self.sites.classes, self.method.models)
        return pretrained.first_networks(self.train, self.model, *sizes, self.seed)

    def blank_networks(self) -> nn.ModuleList:
        """The same networks where weights come with every order: reads no file."""
        return models.build(
            self.model, self.input_shape, self.sites.classes, self.method.models, self.seed
        )


class Desk:
    """Serves orders, one at a time."""

    def __init__(self, plan: Blueprint) -> None:
        self.plan = plan
        self.device = torch.device(plan.train.device)
        self.model = plan.blank_networks().to(self.device)
        # looked up once: walks through modules take long
        self.weights = list(self.model.parameters())
        self.entries = self.model.state_dict(keep_vars=True)
        self.shapes = {MODEL + name: entry.shape for name, entry in self.entries.items()}
        self.broadcast: Arrays = {}

    def do(self, job: Job) -> Answer | Tensor:
        """An order, or a look at a model."""
        return self.look(job) if isinstance(job, Look) else self.serve(job)

    def serve(self, order: Order) -> Answer:
        """Runs one client's task from the received arrays and its accepted state."""
        started = time.perf_counter()
        client = self.client(order)
        self.load(client.inbox)
        self.model.train(order.task == FIT)
        for weight in self.weights:  # whatever was served before leaves no trace
            weight.grad = None
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(self.derive("torch", order))  # dropout and the like
            sent = self.run(client, order)
        if client.state:
            self.plan.state.write(order.client, order.step, client.state)
        seconds = time.perf_counter() - started
        predictions = self.own_predictions(client) if order.predict else None
        reply = Reply(order.client, len(client.data), sent)
        return Answer(reply, bool(client.state), seconds, predictions)

    def load(self, received: Arrays) -> None:
        """Takes over the received weights."""
        given = {name: value for name, value in received.items() if name.startswith(MODEL)}
        if {name: value.shape for name, value in given.items()} != self.shapes:
            load_weights(self.model, received)  # raises: torch says what does not fit
        with torch.no_grad():
            for name, entry in self.entries.items():
                entry.copy_(given[MODEL + name])

    def look(self, look: Look) -> Tensor:
        """Class numbers, int16, by the model that was broadcast."""
        self.load(self.broadcast)
        x = self.plan.views[look.view][look.rows]
        return predict(self.plan.method, self.model, x).to(torch.int16)

    def run(self, client: Client, order: Order) -> Arrays:
        """Any failure of a method becomes one message, in process and in a worker alike."""
        try:
            return run_task(client, order.task)
        except FlrError:
            raise
        except Exception as error:
            log.error("client %s failed", order.client, exc_info=True)
            raise RunError(
                f'Expected an answer of client {order.client} to task "{order.task}" in step '
                f"{order.step}; it failed with {type(error).__name__}: {error}. The traceback is "
                "in the log above. Mend the method, model or data, then go on with `flr resume`."
            ) from error

    def client(self, order: Order) -> Client:
        """The site as the method sees it during this task."""
        plan, site = self.plan, self.plan.sites[order.client]
        on_device = Site(site.name, site.x.to(self.device), site.y.to(self.device), site.classes)
        order_rng, augmentation, own = (
            seeds.generator(plan.seed, purpose, order.client, order.step)
            for purpose in ("order", "augment", "method")
        )
        return Client(
            id=order.client,
            method=plan.method,
            model=self.model,
            data=on_device,
            state=plan.state.read(order.client, order.version),
            inbox=self.broadcast | order.extra,
            step=order.step,
            round=order.round,
            rounds=order.rounds,
            train=plan.train,
            order=order_rng,
            augmentation=augmentation,
            rng=own,
            make_batches=plan.batches,
            make_reference=partial(frozen_copy, self.model),
        )

    def own_predictions(self, c: Client) -> Tensor:
        """The trained local model's arg-max on the site's own data, without augmentation."""
        return predict(self.plan.method, self.model, c.data.x).to(torch.int16)

    def derive(self, purpose: str, order: Order) -> int:
        return seeds.derive(self.plan.seed, purpose, order.client, order.step)


def frozen_copy(model: nn.ModuleList, c: Client) -> nn.ModuleList:
    """The received networks for reading only; made when a method first looks at them."""
    frozen = copy.deepcopy(model)
    load_weights(frozen, c.inbox)
    return frozen.eval().requires_grad_(False)


class BenchmarkDesk:
    """The server's clean samples as a site of its own, for methods that need supervision."""

    def __init__(self, plan: Blueprint, x: Tensor, y: Tensor) -> None:
        table = site_table(x, [torch.arange(len(y))], [y], plan.sites.classes)
        seed = seeds.derive(plan.seed, "benchmark")
        self.desk = Desk(replace(plan, sites=table, seed=seed, state=NoState(plan.state.folder)))

    def run(self, s: Server, task: str, arrays: Arrays) -> Arrays:
        """Does a task of the method on the clean samples."""
        self.desk.broadcast = arrays
        return self.desk.serve(Order(task, 0, s.step, s.round, s.rounds)).reply.arrays


@torch.no_grad()
def each_network(model: nn.ModuleList, x: Inputs) -> dict[str, Tensor]:
    """Class numbers by each network alone ("1", "2"), and by the sum of logits ("ensemble")."""
    model.eval()
    device = next(model.parameters()).device
    parts = [
        torch.stack([net(part.to(device)) for net in model]) for part in x.split(PREDICT_BATCH)
    ]
    logits = torch.cat(parts, 1).cpu()
    found = {str(number): own.argmax(1) for number, own in enumerate(logits, start=1)}
    return found | {"ensemble": logits.sum(0).argmax(1)}


@torch.no_grad()
def predict(method: Method, model: nn.ModuleList, x: Tensor) -> Tensor:
    """Class numbers by the method's own rule, in eval mode."""
    model.eval()
    device = next(model.parameters()).device
    parts = [method.predict(model, part.to(device)).argmax(1) for part in x.split(PREDICT_BATCH)]
    return torch.cat(parts).cpu()
