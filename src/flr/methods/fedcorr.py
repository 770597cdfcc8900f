"""FedCorr: Xu et al., CVPR 2022.

*FedCorr: Multi-Stage Federated Learning for Label Noise Correction.*
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import torch
from annotated_types import Ge, Gt, Le, Lt
from torch import Tensor

from flr.core import registry, seeds
from flr.core.arrays import Arrays
from flr.core.contract import Batch, Client, Reply, Server, Task
from flr.core.registry import register
from flr.core.traits import Declared, Traits
from flr.methods.mixup import Mixup
from flr.methods.shared.lid import candidates, corrected, lid, output_losses
from flr.methods.shared.mixtures import two_groups
from flr.methods.shared.selection import draw_seed
from flr.methods.shared.wrapper import Wrapper
from flr.models.inference import evaluating, method_logits

if TYPE_CHECKING:
    from flr.config import Config

Share = Annotated[float, Ge(0), Le(1)]


def proximal(w: Sequence[Tensor], w_srv: Sequence[Tensor], mu: float, beta: float) -> Tensor:
    """beta * mu * |w - w_srv|: one norm over all parameters, not squared."""
    moved = [(now - before).flatten() for now, before in zip(w, w_srv, strict=True)]
    norm: Tensor = torch.linalg.vector_norm(torch.cat(moved))
    return beta * mu * norm


def stage_ends(
    rounds: int, clients: int, per_round: int, iterations: int, finetune_share: float
) -> tuple[int, int]:
    """The equivalent rounds after which stages 1 and 2 end; stage 3 has the rest."""
    first = math.ceil(iterations * clients / per_round)
    rest = rounds - first
    return first, first + max(1, min(round(rest * finetune_share), rest - 1))


@register(
    "fedcorr",
    title="FedCorr",
    paper="Xu et al., CVPR 2022",
    year=2022,
    aliases={
        "flr+": (
            "FLR inside FedCorr: cross-entropy with Mixup until R_w, then FLR's loss.",
            {"inner": {"name": "flr", "lam": 3.0}},
        )
    },
)
@dataclass(frozen=True)
class FedCorr(Wrapper):
    """Finds noisy clients by their predictions' dimension, and corrects labels, in three stages.

    Equation:
        LID_i = -k / (sum_j log(d_ij / d_ik))     k nearest predictions of i
        noisy clients: larger mean of two Gaussians over sum_t mean_i LID_i
        level_k: share of the larger mean of two over the losses of client k
        1  all clients in turn, each from the last one's model:
           L = inner + beta * level_k * |w - w_srv|; then noisy clients take
           arg-max p over `confidence` for their n * level_k * relabel_ratio
           largest losses                         (`iterations` times)
        2  clients with level_k <= clean_level; then all sure samples of noisy
           clients are relabelled
        3  all clients

    `rounds` counts all stages: stage 1 takes iterations / participation of them, stage 2
    `finetune_share` of the rest. Stage 1 is sequential: workers do not speed it up. `inner` is
    any method without a plan of its own; batches are mixed up (`mixup`; 0 turns it off) unless it
    makes its own. beta is off in stages 2 and 3. FLR inside it (`flr+`) keeps its warm-up: with
    the paper's R_w = 50 the first stage on CIFAR-10 trains by cross-entropy with Mixup; inner =
    { name = "flr", warmup = "schedule" } has FLR's loss in all three.

    State: corrected labels, which stand before the given ones, and the last losses.
    Leaves the site: weights, the number of samples; in stage 1 its mean LID and estimated level.
    Differs: losses by one softmax, statistics of plain images, and k = n - 1 where a site has
    fewer than k others; repo_quirks = true does as the authors' code.
    """

    iterations: Annotated[int, Ge(1)] = 5
    finetune_share: Annotated[float, Gt(0), Lt(1)] = 0.5
    confidence: Share = 0.5
    relabel_ratio: Share = 0.5
    clean_level: Share = 0.1
    beta: Annotated[float, Ge(0)] = 5.0
    mixup: Annotated[float, Ge(0)] = 1.0
    lid_neighbours: Annotated[int, Ge(1)] = 20
    repo_quirks: bool = False

    own_traits = Traits(
        approach=("correction", "loss"),
        sends=(
            Declared("fedcorr.lid", (), "mean LID of its predictions", torch.float64, "in stage 1"),
            Declared(
                "fedcorr.level",
                (),
                "estimated noise of its labels",
                torch.float64,
                "in stage 1",
                least=0,
            ),
        ),
        receives=(
            Declared("fedcorr.stage", (), "1, 2 or 3", torch.int64),
            Declared("fedcorr.mu", (), "its estimated level, 0 if clean (stage 1)", torch.float64),
        ),
        keeps=(
            Declared("fedcorr.labels", ("samples",), "labels as corrected", torch.int64),
            Declared("fedcorr.losses", ("samples",), "losses after its last turn in stage 1"),
        ),
        cost=(
            "in stage 1 one more forward pass over the site, distances between all its "
            "predictions, and the clients one after another"
        ),
        individual=True,
        note="The first stage trains one client at a time: workers do not speed it up.",
    )

    def check(self, config: Config) -> Iterable[str]:
        yield from super().check(config)
        rule = registry.get("aggregator", config.aggregate.name).check
        if rule and rule(1, **config.aggregate.options):
            yield (
                f'aggregate = "{config.aggregate.name}" needs several replies, and the first stage '
                'has one in each step. Use "mean" or another rule that takes one'
            )
        share = config.train.participation
        needed = math.ceil(self.iterations / share - 1e-9)
        clients = config.partition.build().sites if config.scenario.path is None else None
        if clients is not None:
            needed = math.ceil(self.iterations * clients / config.train.asked(clients))
        if config.rounds < needed + 2:
            yield (
                f"rounds = {config.rounds} is too few: {self.iterations} iterations over all "
                f"clients are as much work as {needed} rounds at participation = {share}, and "
                f"stages 2 and 3 need one each. Use rounds = {needed + 2} or more, or fewer "
                "iterations"
            )

    # ---- at the client

    def begin(self, c: Client) -> None:
        c.data = replace(c.data, y=self.labels(c))
        super().begin(c)

    def labels(self, c: Client) -> Tensor:
        """The labels as corrected so far."""
        return c.state.get("fedcorr.labels", c.data.y).to(c.data.y.device)

    def batches(self, c: Client, epoch: int) -> Iterator[Batch]:
        mixed = self.mixup > 0 and not self.part.owns("batches")
        made = Mixup(self.mixup).batches(c, epoch) if mixed else super().batches(c, epoch)
        for number, b in enumerate(made):
            c.scratch["fedcorr.first"] = number == 0
            yield b

    def penalty(self, c: Client, net: int) -> Tensor | float:
        term: Tensor | float = super().penalty(c, net)
        mu = float(c.inbox["fedcorr.mu"])
        if self.beta == 0 or mu == 0 or c.scratch["fedcorr.first"]:
            return term
        w, w_srv = c.model[net].parameters(), c.reference[net].parameters()
        return term + proximal(list(w), list(w_srv), mu, self.beta)

    def finish(self, c: Client) -> Arrays:
        sent: Arrays = super().finish(c)
        c.state["fedcorr.labels"] = c.data.y.cpu()
        if int(c.inbox["fedcorr.stage"]) > 1:
            c.state.setdefault("fedcorr.losses", torch.zeros(len(c.data)))
            return sent
        logits = self.outputs(c)
        losses = output_losses(logits, c.data.y, self.repo_quirks)
        c.state["fedcorr.losses"] = losses.cpu()
        spread = lid(logits.softmax(1), self.lid_neighbours, self.repo_quirks).mean().cpu()
        level = two_groups(losses, draw_seed(c)).double().mean().cpu()
        return sent | {"fedcorr.lid": spread, "fedcorr.level": level}

    def tasks(self) -> dict[str, Callable[[Client], Arrays]]:
        return {**super().tasks(), "correct": self.correct}

    def correct(self, c: Client) -> Arrays:
        """Relabels by the received model what it is sure of; nothing but a receipt is sent."""
        rows = torch.arange(len(c.data))
        if int(c.inbox["fedcorr.stage"]) == 1:
            level = float(c.inbox["fedcorr.mu"])
            rows = candidates(c.state["fedcorr.losses"], level, self.relabel_ratio)
        p = self.outputs(c).softmax(1)
        labels = corrected(self.labels(c), p, rows.to(p.device), self.confidence)
        c.state["fedcorr.labels"] = labels.cpu()
        return {}

    @torch.no_grad()
    def outputs(self, c: Client) -> Tensor:
        """Logits of the site's samples in eval mode; the authors' code augments the images."""
        if not self.repo_quirks:
            return method_logits(c.method, c.model, c.data.x)
        with evaluating(c.model):
            made = [(b.index, c.method.predict(c.model, b.x)) for b in c.make_batches(c)]
        return torch.cat([z for _, z in made])[torch.cat([index for index, _ in made]).argsort()]

    # ---- at the server

    def start(self, s: Server) -> None:
        super().start(s)
        for name in ("lid", "reported", "level"):  # summed, in the last sweep, 0 if clean
            s.state[f"fedcorr.{name}"] = torch.zeros(s.clients, dtype=torch.float64)
        s.state["fedcorr.heard"] = torch.zeros(s.clients, dtype=torch.int64)
        s.state["fedcorr.noisy"] = torch.zeros(s.clients, dtype=torch.bool)
        s.state["fedcorr.turns"] = torch.tensor(0)  # of stage 1 that are over
        s.state["fedcorr.due"] = torch.tensor(0)  # the stage whose correction comes next

    def ends(self, s: Server) -> tuple[int, int]:
        """When stages 1 and 2 end."""
        sizes = (s.rounds, s.clients, s.per_round)
        return stage_ends(*sizes, self.iterations, self.finetune_share)

    def plan(self, s: Server) -> Task | None:
        if s.round == s.rounds:
            return None
        if due := int(s.state["fedcorr.due"]):
            noisy = s.state["fedcorr.noisy"].nonzero().flatten().tolist()
            return self.ask(s, "correct", tuple(noisy), due)
        iteration, turn = divmod(int(s.state["fedcorr.turns"]), s.clients)
        if iteration < self.iterations:
            rng = seeds.generator(s.seed, "server/fedcorr/order", step=iteration)
            return self.ask(s, "fit", (int(torch.randperm(s.clients, generator=rng)[turn]),), 1)
        if s.round < self.ends(s)[1]:
            return self.ask(s, "fit", self.sample_clean(s), 2)
        return self.ask(s, "fit", s.sample(), 3)

    def ask(self, s: Server, name: str, clients: tuple[int, ...], stage: int) -> Task:
        """A task with what each client needs to know; where one is lost, the others go on."""
        level = s.state["fedcorr.level"] * (stage == 1)
        order = {"fedcorr.stage": torch.tensor(stage)}
        extra = {client: {**order, "fedcorr.mu": level[client].clone()} for client in clients}
        return s.task(name, clients, extra, optional=stage == 1 or name == "correct")

    def sample_clean(self, s: Server) -> tuple[int, ...]:
        """Clients of a round of stage 2; where none is clean, those of the lowest levels."""
        known = s.state["fedcorr.heard"] > 0
        level = s.state["fedcorr.level"].masked_fill(~known, torch.inf)
        clean = (level <= self.clean_level).nonzero().flatten()
        if not len(clean):
            clean = level.argsort(stable=True)[: s.per_round]
        chosen = torch.randperm(len(clean), generator=s.rng("sample"))[: s.per_round]
        return tuple(sorted(clean[chosen].tolist()))

    def reduce(self, s: Server, task: Task, replies: list[Reply]) -> None:
        if task.name == "correct":
            s.state["fedcorr.due"] = torch.tensor(0)
            return
        before, noisy = s.round, bool(s.state["fedcorr.noisy"].any())
        if replies:
            super().reduce(s, task, replies)  # of one client in stage 1: its model is the next
        s.round = before + 1
        if int(s.state["fedcorr.turns"]) < self.iterations * s.clients:
            s.round = before + self.end_turn(s, replies)
        elif s.round == self.ends(s)[1] and noisy:
            s.state["fedcorr.due"] = torch.tensor(2)

    def end_turn(self, s: Server, replies: list[Reply]) -> bool:
        """Takes one client's numbers; whether an equivalent round is over."""
        turns = int(s.state["fedcorr.turns"]) + 1
        s.state["fedcorr.turns"] = torch.tensor(turns)
        for reply in replies:
            at = torch.arange(s.clients) == reply.client
            sums, levels = s.state["fedcorr.lid"], s.state["fedcorr.reported"]
            s.state["fedcorr.lid"] = sums + at * reply.arrays["fedcorr.lid"]
            s.state["fedcorr.reported"] = torch.where(at, reply.arrays["fedcorr.level"], levels)
            s.state["fedcorr.heard"] = s.state["fedcorr.heard"] + at
        if turns % s.clients == 0:
            self.divide(s)
        return turns % s.per_round == 0 or turns == self.iterations * s.clients

    def divide(self, s: Server) -> None:
        """After a sweep: which clients are noisy; who missed turns counts by its mean LID."""
        heard = s.state["fedcorr.heard"]
        known = heard > 0
        score = (s.state["fedcorr.lid"] * heard.max() / heard.clamp(min=1))[known]
        seed = int(torch.randint(2**31, (), generator=s.rng("fedcorr")))
        noisy = known.masked_scatter(known, two_groups(score, seed))
        s.state["fedcorr.noisy"] = noisy
        s.state["fedcorr.level"] = s.state["fedcorr.reported"] * noisy
        s.state["fedcorr.due"] = torch.tensor(int(noisy.any()))
