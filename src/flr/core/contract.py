"""The contract between a method and the engine: all that a method may see, do and say.

A federation is a loop of two steps: the method's `plan` names what the server asks of which
clients, and `reduce` turns their replies into the next state. A client answers by `run_task`
(client/what_leaves.py), which calls the method's client hooks. The engine decides only *where*
clients run.

A complete method in forty lines is methods/fedprox.py. All hooks are optional: `Method` itself is
FedAvg.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from flr.core import seeds
from flr.core.arrays import Arrays, summed, with_prefix
from flr.core.errors import RunError
from flr.core.traits import Traits

if TYPE_CHECKING:
    from flr.config import Config, Train

MODEL = "model."  # prefix of the networks' weights and buffers: "model.<network>.<name>"


@dataclass(frozen=True)
class SamplePredictions:
    """What a method knows of each sample of a site from training: class probabilities.

    Args:
        views: Whose predictions ("global", "local") -> samples x classes, rows that sum to one.
        visited: Which samples have been visited; other rows mean nothing.
        kept_by: The method, as it is called in texts.
    """

    views: Mapping[str, Tensor]
    visited: Tensor
    kept_by: str


@dataclass(frozen=True)
class Site:
    """What one site holds: inputs and labels *as given*. No field can hold a clean label.

    For reading only: tasks of one process share these tensors.
    """

    name: str
    x: Tensor  # n x ..., float32, normalised; int64 where they are numbers of tokens
    y: Tensor  # n, int64
    classes: int
    views: Tensor | None = None  # n x views x ..., of which each visit in training draws one

    def __len__(self) -> int:
        return len(self.y)

    def map(self, change: Callable[[Tensor], Tensor]) -> Site:
        """The same done to inputs, labels and views: on another device, or fewer samples."""
        views = None if self.views is None else change(self.views)
        return Site(self.name, change(self.x), change(self.y), self.classes, views)


@dataclass(frozen=True)
class Batch:
    """Samples of a site as a network sees them; `index` is stable over rounds and orders.

    In a mixed batch, row i is `weight` of row i of `plain` and the rest of its row `partner[i]`.
    """

    x: Tensor
    y: Tensor  # class numbers, or rows of probabilities
    index: Tensor
    networks: tuple[int, ...] | None = None  # which are trained on it; None: all
    plain: Batch | None = None
    partner: Tensor | None = None
    weight: float = 1.0


@dataclass(frozen=True)
class Task:
    """What the server asks of some clients; `extra` differs from client to client."""

    name: str  # "fit", or one of method.tasks()
    clients: tuple[int, ...]
    arrays: Arrays
    step: int
    round: int
    rounds: int
    extra: Mapping[int, Arrays] = field(default_factory=dict)
    optional: bool = False  # the run goes on even without a reply


@dataclass(frozen=True)
class Reply:
    """What one client answers."""

    client: int
    examples: int
    arrays: Arrays


Aggregate = Callable[[list[Reply], str, Arrays], Arrays]  # replies, prefix, previous -> next


@dataclass
class Client:
    """One site during one task."""

    id: int
    method: Method  # the whole stack: hooks call its criterion and regularisers, not their own
    model: nn.ModuleList  # one network, or two for co-teaching
    data: Site
    state: (
        Arrays  # survives between tasks, never leaves the site; replace entries, never change them
    )
    inbox: Arrays  # task.arrays and task.extra of this client
    step: int
    round: int
    rounds: int
    train: Train
    order: (
        torch.Generator
    )  # one generator for each purpose: a method that draws does not shift the others
    augmentation: torch.Generator
    rng: torch.Generator  # the method's own
    make_batches: Callable[[Client], Iterator[Batch]]
    make_reference: Callable[[Client], nn.ModuleList]
    scratch: dict[str, Any] = field(default_factory=dict)  # lasts for this task only
    _reference: nn.ModuleList | None = None

    @property
    def reference(self) -> nn.ModuleList:
        """The received networks, frozen and in eval mode; built when first touched."""
        if self._reference is None:
            self._reference = self.make_reference(self)
        return self._reference


class Benchmark(Protocol):
    """The server's clean samples, reached like a client: by tasks."""

    def run(self, s: Server, task: str, arrays: Arrays) -> Arrays:
        """Does a task of the method on these samples, starting from these arrays."""


@dataclass
class Server:
    """The server between two steps: all of it is plain data, so that it can be checkpointed."""

    arrays: Arrays  # exactly what is broadcast: "model.*" and whatever the method adds
    state: Arrays  # kept between steps, never sent
    rounds: int
    clients: int
    per_round: int
    seed: int
    aggregate: Aggregate
    examples: tuple[int, ...] = ()  # samples of each client, as they said when they joined
    buffers: frozenset[str] = frozenset()  # names in `arrays` of what no gradient moves
    benchmark: Benchmark | None = None  # a small clean set of the server's own
    step: int = 0  # counts every plan and reduce
    round: int = 0  # what is reported; may stay the same over many steps

    def rng(self, purpose: str) -> torch.Generator:
        """A generator for this step."""
        return seeds.generator(self.seed, f"server/{purpose}", step=self.step)

    def sample(self) -> tuple[int, ...]:
        """The clients of this step: uniform, without replacement, sorted."""
        chosen = torch.randperm(self.clients, generator=self.rng("sample"))[: self.per_round]
        return tuple(sorted(chosen.tolist()))

    def task(
        self,
        name: str,
        clients: tuple[int, ...],
        extra: Mapping[int, Arrays] | None = None,
        optional: bool = False,
    ) -> Task:
        """A task of this step, with what is broadcast."""
        now = (self.step, self.round, self.rounds)
        return Task(name, clients, self.arrays, *now, extra or {}, optional)

    def on_benchmark(self, task: str, arrays: Arrays) -> Arrays:
        """Does a task on the server's clean samples, starting from these arrays."""
        if self.benchmark is None:
            raise RunError(
                "The method needs clean samples at the server; the scenario has set none aside. "
                "Write [scenario] benchmark = 50, or build the saved scenario again with it."
            )
        return self.benchmark.run(self, task, arrays)


class Method:
    """A way to train a federation: a frozen value whose fields are its hyper-parameters.

    Subclasses override the hooks they need, and say in `traits` what crosses the wire besides the
    weights. Methods combine by stacking (core/combine.py): regularisers and penalties add up,
    and every other hook has one owner. `flr.register` gives a method the name that configs use.

    Example:
        >>> class Calm(flr.Method):
        ...     def regularize(self, c, net, logits, b):
        ...         return 0.01 * logits.square().mean()
        >>> Calm().owns("regularize"), Calm().owns("plan")
        (True, False)
    """

    @property
    def traits(self) -> Traits:
        """What the method is; a class attribute will do unless it depends on options."""
        return Traits()

    def owns(self, hook: str) -> bool:
        """Whether this method decides on a hook that can have one owner in a stack."""
        defined = getattr(type(self), hook) is not getattr(Method, hook)
        return defined or hook in self.traits.owns

    # ---- before a run

    def check(self, config: Config) -> Iterable[str]:
        """Reasons why this method cannot run with this config, in words."""
        return ()

    # ---- at the client

    def begin(self, c: Client) -> None:
        """Before the first batch: read `c.state`, prepare `c.scratch`."""

    def batches(self, c: Client, epoch: int) -> Iterator[Batch]:
        """One epoch; may reorder, select, split or mix."""
        return c.make_batches(c)

    def criterion(self, c: Client, logits: Tensor, b: Batch) -> Tensor:
        """The loss on labels."""
        return F.cross_entropy(logits, b.y)

    def regularize(self, c: Client, net: int, logits: Tensor, b: Batch) -> Tensor | float:
        """A term on predictions, added to any loss, once for each network."""
        return 0.0

    def loss(self, c: Client, b: Batch) -> Tensor:
        """The whole loss of a batch on all networks, without penalties."""
        terms: list[Tensor | float] = []
        for net, network in enumerate(c.model):
            logits = network(b.x)
            terms += [c.method.criterion(c, logits, b), c.method.regularize(c, net, logits, b)]
        return summed(terms)

    def penalty(self, c: Client, net: int) -> Tensor | float:
        """A term on the weights of one network."""
        return 0.0

    def finish(self, c: Client) -> Arrays:
        """After the last batch: write `c.state`, return what is sent besides the weights."""
        return {}

    def tasks(self) -> dict[str, Callable[[Client], Arrays]]:
        """Tasks other than "fit"."""
        return {}

    # ---- at the server

    def start(self, s: Server) -> None:
        """Before the first step: add to `s.arrays` and `s.state`."""

    def plan(self, s: Server) -> Task | None:
        """What to ask next; None ends the run."""
        return None if s.round == s.rounds else s.task("fit", s.sample())

    def reduce(self, s: Server, task: Task, replies: list[Reply]) -> None:
        """Turns replies (sorted by client) into the next state."""
        s.arrays |= s.aggregate(replies, MODEL, s.arrays)
        s.round += 1

    def result(self, s: Server) -> Arrays:
        """The model that is evaluated and saved."""
        return with_prefix(s.arrays, MODEL)

    def predict(self, models: nn.ModuleList, x: Tensor) -> Tensor:
        """Logits of the trained networks; every evaluation goes through here."""
        logits: Tensor = models[0](x)
        return logits

    # ---- after a run, at the site

    def sample_predictions(self, state: Arrays, classes: int) -> SamplePredictions | None:
        """What the state of a site tells of each of its samples; for the audit of its labels."""
        return None
