"""Where the clients of one process are trained, one task after another.

A result depends on the method, the site's data, the accepted state and the received arrays; not on
the process, on earlier tasks, or on other clients. The in-process engine has one worker in each of
its processes; on Flower each site has its own.
"""

from __future__ import annotations

import copy
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor, nn

from flr.client.precision import bf16
from flr.client.state import NoState, StateFiles
from flr.client.what_leaves import FIT, run_task
from flr.core import seeds
from flr.core.arrays import Arrays
from flr.core.contract import MODEL, Batch, Client, Method, Reply, Server, Site
from flr.core.errors import FlrError, RunError
from flr.core.traits import VALIDATE
from flr.data.dataset import Ragged, SiteTable
from flr.data.on_disk import Numbers
from flr.models import networks as models
from flr.models.inference import method_logits, predict
from flr.models.networks import load_weights

if TYPE_CHECKING:
    from flr.config import Train

log = logging.getLogger("flr")


@dataclass(frozen=True)
class ClientTask:
    """One client's part of a task."""

    task: str
    client: int
    step: int
    round: int
    rounds: int
    version: int | None = None  # of the client's state
    extra: Arrays = field(default_factory=dict)
    predict: bool = False  # an observer wants the trained model's own predictions


@dataclass(frozen=True)
class PredictJob:
    """Samples to classify with the model that was broadcast; no client takes part."""

    view: str  # a name in `WorkerSpec.views`
    rows: Tensor
    logits: bool = False  # instead of the classes that they make most probable


Job = ClientTask | PredictJob


@dataclass(frozen=True)
class ClientResult:
    """A client's reply, and what the engine wants to know besides."""

    reply: Reply
    stateful: bool  # a new version of the state was written
    seconds: float
    predictions: Tensor | None
    problem: str = ""  # why there is no reply, where one site's failure does not end the run
    digest: str = ""  # of the new version's file, where it is on this machine
    norm: float | None = None  # of the update, where it is watched


class Sites(Protocol):
    """The sites that a worker trains, by number: all of a simulation, or a node's own."""

    @property
    def classes(self) -> int: ...

    def __getitem__(self, client: int) -> Site: ...


@dataclass(frozen=True)
class WorkerSpec:
    """Everything a worker is made from; it is sent to worker processes."""

    method: Method
    sites: Sites
    model: Callable[[tuple[int, ...], int], nn.Module]  # (input_shape, classes)
    input_shape: tuple[int, ...]
    train: Train
    seed: int
    batches: Callable[[Client], Iterator[Batch]]
    state: StateFiles
    views: Mapping[str, Numbers] = field(default_factory=dict)  # inputs by name, for PredictJob
    held_out: Sites | None = None  # of the same sites, what they do not train on

    def blank_networks(self) -> nn.ModuleList:
        """Networks whose weights come with every task: reads no file."""
        return models.build(
            self.model, self.input_shape, self.sites.classes, self.method.traits.networks, self.seed
        )


class ClientWorker:
    """Does client tasks and predictions, one at a time."""

    def __init__(self, spec: WorkerSpec) -> None:
        self.spec = spec
        self.device = torch.device(spec.train.device)
        self.model = spec.blank_networks().to(self.device)
        # looked up once, because each walk through the modules takes long
        self.weights = list(self.model.parameters())
        self.entries = self.model.state_dict(keep_vars=True)
        self.shapes = {MODEL + name: entry.shape for name, entry in self.entries.items()}
        self.broadcast: Arrays = {}

    def execute(self, job: Job) -> ClientResult | Tensor:
        """Does one job."""
        return self.predict(job) if isinstance(job, PredictJob) else self.serve(job)

    def serve(self, task: ClientTask) -> ClientResult:
        """Runs one client's task from the received arrays and its accepted state."""
        started = time.perf_counter()
        client = self.client(task)
        self.load(client.inbox)
        self.model.train(task.task == FIT)
        for weight in self.weights:  # an earlier task must leave no trace
            weight.grad = None
        seed = seeds.derive(self.spec.seed, "torch", task.client, task.step)
        in_bf16 = self.spec.train.amp == "bf16"
        with seeded(self.device, seed), bf16(self.model, self.device) if in_bf16 else nullcontext():
            sent = self.run(client, task)
        digest = ""
        if client.state:
            digest = self.spec.state.write(task.client, task.step, client.state)
        seconds = time.perf_counter() - started
        predictions = None
        if task.predict:  # on the site's own data, without augmentation
            predictions = predict(self.spec.method, self.model, client.data.x).to(torch.int16)
        reply = Reply(task.client, len(client.data), sent)
        return ClientResult(reply, bool(client.state), seconds, predictions, digest=digest)

    def load(self, received: Arrays) -> None:
        """Takes over the received weights."""
        given = {name: value for name, value in received.items() if name.startswith(MODEL)}
        if {name: value.shape for name, value in given.items()} != self.shapes:
            load_weights(self.model, received)  # raises: torch says what does not fit
        with torch.no_grad():
            for name, entry in self.entries.items():
                entry.copy_(given[MODEL + name])

    def predict(self, job: PredictJob) -> Tensor:
        """Class numbers, int16, or logits by the model that was broadcast."""
        self.load(self.broadcast)
        x = self.spec.views[job.view][job.rows]
        if job.logits:
            return method_logits(self.spec.method, self.model, x).cpu()
        return predict(self.spec.method, self.model, x).to(torch.int16)

    def run(self, client: Client, task: ClientTask) -> Arrays:
        """Any failure of a method becomes one message, in process and in a worker alike."""
        try:
            return run_task(client, task.task)
        except FlrError:
            raise
        except Exception as error:
            log.error("client %s failed", task.client, exc_info=True)
            raise RunError(
                f'Expected a result of client {task.client} for task "{task.task}" in step '
                f"{task.step}; it failed with {type(error).__name__}: {error}. The traceback is "
                "in the log above. Mend the method, model or data, then go on with `flr resume`."
            ) from error

    def client(self, task: ClientTask) -> Client:
        """The site as the method sees it during this task."""
        spec, validating = self.spec, task.task == VALIDATE
        sites = spec.held_out if validating and spec.held_out is not None else spec.sites
        order_rng, augmentation, own = (
            seeds.generator(spec.seed, purpose, task.client, task.step)
            for purpose in ("order", "augment", "method")
        )
        return Client(
            id=task.client,
            method=spec.method,
            model=self.model,
            data=sites[task.client].map(lambda held: held.to(self.device)),
            state={} if validating else spec.state.read(task.client, task.version),
            inbox=self.broadcast | task.extra,
            step=task.step,
            round=task.round,
            rounds=task.rounds,
            train=spec.train,
            order=order_rng,
            augmentation=augmentation,
            rng=own,
            make_batches=spec.batches,
            make_reference=partial(frozen_copy, self.model),
        )


@contextmanager
def seeded(device: torch.device, seed: int) -> Iterator[None]:
    """torch's own generators, for dropout and the like; the caller's go on where they were."""
    on_gpu = device.type == "cuda"
    with torch.random.fork_rng(devices=[device] if on_gpu else []):
        torch.default_generator.manual_seed(seed)
        if on_gpu:
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        elif device.type == "mps":
            torch.mps.manual_seed(seed)
        yield


def frozen_copy(model: nn.ModuleList, c: Client) -> nn.ModuleList:
    """The received networks for reading only; made when a method first looks at them."""
    frozen = copy.deepcopy(model)
    load_weights(frozen, c.inbox)
    return frozen.eval().requires_grad_(False)


class BenchmarkWorker:
    """The server's clean samples as a site of its own, for methods that need supervision."""

    def __init__(self, spec: WorkerSpec, x: Tensor, y: Tensor) -> None:
        samples, given = Ragged.of([torch.arange(len(y))]), Ragged.of([y])
        table = SiteTable(x, samples, given, spec.sites.classes)
        seed = seeds.derive(spec.seed, "benchmark")
        self.worker = ClientWorker(
            replace(spec, sites=table, seed=seed, state=NoState(spec.state.folder))
        )

    def run(self, s: Server, task: str, arrays: Arrays) -> Arrays:
        """Does a task of the method on the clean samples."""
        self.worker.broadcast = arrays
        return self.worker.serve(ClientTask(task, 0, s.step, s.round, s.rounds)).reply.arrays
