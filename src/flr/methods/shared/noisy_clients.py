"""Clients that are found noisy once, by their losses in each class, and then treated apart.

FedNoRo's first stage, its detection and its rule at the server, which later methods share: Wu et
al., IJCAI 2023.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

import torch
import torch.nn.functional as F
from annotated_types import Ge
from torch import Tensor

from flr.aggregate.common import weighted_average
from flr.core.arrays import Arrays, with_prefix
from flr.core.contract import MODEL, Batch, Client, Method, Reply, Server, Task
from flr.core.traits import Declared
from flr.methods.shared.mixtures import several_splits
from flr.methods.shared.warmup import endless_warmup
from flr.models.inference import method_logits

if TYPE_CHECKING:
    from flr.config import Config

LOSSES, NOISY = "noisy.losses", "noisy.client"
ABSENT = -1.0  # stands for the mean loss of a class without samples: NaN would be refused
SENDS = (
    Declared(LOSSES, ("classes",), "mean loss of each given class, -1 if absent", when="once"),
)
RECEIVES = (Declared(NOISY, (), "whether it was found noisy", torch.bool, "after the warm-up"),)


def class_counts(y: Tensor, classes: int) -> Tensor:
    """How many samples have each given label (classes, float64)."""
    return torch.bincount(y, minlength=classes).double()


def adjusted_log_softmax(logits: Tensor, counts: Tensor) -> Tensor:
    """a = log softmax(z + log pi), pi = n_c / n; 0, without gradient, for classes with n_c = 0."""
    prior = (counts / counts.sum()).to(logits)
    a = (logits + prior.log()).log_softmax(1)
    return a.masked_fill(prior == 0, 0.0)


def adjusted_ce(logits: Tensor, y: Tensor, counts: Tensor) -> Tensor:
    """mean_i -a_{i,y}; y are class numbers, or rows of probabilities."""
    a = adjusted_log_softmax(logits, counts)
    return F.nll_loss(a, y) if y.dim() == 1 else -(y * a).sum(1).mean()


def distillation(logits: Tensor, soft: Tensor, counts: Tensor) -> Tensor:
    """KL(s || exp a) of each row: sum_c s_c (log s_c - a_c) (b)."""
    a = adjusted_log_softmax(logits, counts)
    return (torch.xlogy(soft, soft) - soft * a).sum(1)


def sigmoid_ramp(r: int, begin: int, end: int, largest: float) -> float:
    """w(r) = A exp(-5 (1 - (clip(r, beg, end) - beg) / (end - beg))^2)."""
    done = (min(max(r, begin), end) - begin) / (end - begin)
    return largest * math.exp(-5 * (1 - done) ** 2)


def scaled_losses(losses: Tensor) -> Tensor:
    """Class means (clients x classes, NaN if absent), gaps filled by a column's least, in [0, 1].

    Columns that nobody has, or that are the same for all, are left out.
    """
    columns = []
    for column in losses.double().T:
        known = column[~column.isnan()]
        if len(known) and known.max() > known.min():
            filled = column.nan_to_num(nan=float(known.min()))
            columns.append((filled - known.min()) / (known.max() - known.min()))
    return torch.stack(columns, 1) if columns else losses.new_zeros(len(losses), 0)


def noisy_clients(losses: Tensor, tries: int = 9) -> Tensor:
    """Which clients are noisy (bool): the larger sum of means of two Gaussians, by majority.

    `losses` are the clients' class means, NaN where one has no such class. The commonest of the
    sets of `tries` mixtures wins, of several the first; nobody is noisy among fewer than three.
    """
    scaled = scaled_losses(losses)
    if len(scaled) < 3 or scaled.shape[1] == 0:
        return torch.zeros(len(losses), dtype=torch.bool)
    votes = Counter(tuple(vote.tolist()) for vote in several_splits(scaled, range(tries)))
    return torch.tensor(votes.most_common(1)[0][0], dtype=torch.bool)


def model_distance(one: Arrays, other: Arrays) -> float:
    """sum over float tensors of |w_k - w_j|_2, running statistics included."""
    return math.fsum(
        float(torch.linalg.vector_norm(one[name].double() - other[name].double()))
        for name in one
        if one[name].is_floating_point()
    )


def distance_weights(models: Sequence[Arrays], n: Sequence[float], noisy: Sequence[bool]) -> Tensor:
    """DaAgg: n_k e^{-D_k} / sum; D_k = least distance to a clean model over its maximum, or 0."""
    clean = [model for model, is_noisy in zip(models, noisy, strict=True) if not is_noisy]
    D = torch.tensor(  # noqa: N806 - the paper's letter
        [
            min(model_distance(model, other) for other in clean) if is_noisy else 0.0
            for model, is_noisy in zip(models, noisy, strict=True)
        ],
        dtype=torch.float64,
    )
    if D.max() > 0:
        D = D / D.max()  # noqa: N806
    weights = torch.tensor(list(n), dtype=torch.float64) * (-D).exp()
    return weights / weights.sum()


def is_noisy(c: Client) -> bool:
    """What the server says of this client; before it knows, nothing."""
    return NOISY in c.inbox and bool(c.inbox[NOISY])


def join_by_distance(s: Server, replies: list[Reply]) -> None:
    """The next model: DaAgg where both kinds answered and are known, else FedAvg."""
    known = s.state.get(NOISY, torch.zeros(s.clients, dtype=torch.bool))
    noisy = [bool(known[reply.client]) for reply in replies]
    if all(noisy) or not any(noisy):
        s.arrays |= s.aggregate(replies, MODEL, s.arrays)
        return
    models = [with_prefix(reply.arrays, MODEL) for reply in replies]
    n = [float(reply.examples) for reply in replies]
    weights = distance_weights(models, n, noisy).tolist()
    for name, previous in with_prefix(s.arrays, MODEL).items():
        average = weighted_average([model[name] for model in models], weights)
        s.arrays[name] = average.to(previous.dtype)


@dataclass(frozen=True)
class TwoStages(Method):
    """Logit-adjusted training of all; then the server knows noisy clients, and tells them."""

    warmup_rounds: Annotated[int, Ge(1)] | None = None

    warmup_parts: ClassVar[int] = 6  # by default the first stage has one of so many parts

    def check(self, config: Config) -> Iterable[str]:
        return endless_warmup(self.warmup_rounds, config.rounds, "a part")

    def warmup(self, rounds: int) -> int:
        """T1: rounds of the first stage."""
        default = max(1, round(rounds / self.warmup_parts))
        return default if self.warmup_rounds is None else self.warmup_rounds

    # ---- at the client

    def begin(self, c: Client) -> None:
        c.scratch["noisy.counts"] = class_counts(c.data.y, c.data.classes)

    def criterion(self, c: Client, logits: Tensor, b: Batch) -> Tensor:
        return adjusted_ce(logits, b.y, c.scratch["noisy.counts"])

    def tasks(self) -> dict[str, Callable[[Client], Arrays]]:
        return {"class-losses": self.measure}

    @torch.no_grad()
    def measure(self, c: Client) -> Arrays:
        """Mean CE of the received model on the samples of each given class, in eval mode."""
        logits = method_logits(c.method, c.model, c.data.x)
        losses = F.cross_entropy(logits, c.data.y, reduction="none").cpu()
        y = c.data.y.cpu()
        counts = class_counts(y, c.data.classes)
        sums = torch.zeros_like(counts).index_add(0, y, losses.double())
        means = torch.where(counts > 0, sums / counts.clamp(min=1), ABSENT)
        return {LOSSES: means.float()}

    # ---- at the server

    def plan(self, s: Server) -> Task | None:
        if s.round == s.rounds or s.round < self.warmup(s.rounds):
            return super().plan(s)
        if NOISY not in s.state:
            return s.task("class-losses", tuple(range(s.clients)), optional=True)
        clients = s.sample()
        return s.task("fit", clients, {k: {NOISY: s.state[NOISY][k].clone()} for k in clients})

    def reduce(self, s: Server, task: Task, replies: list[Reply]) -> None:
        if task.name != "fit":
            s.state[NOISY] = self.found(s, replies)
            return
        self.join(s, replies)
        s.round += 1

    def found(self, s: Server, replies: list[Reply]) -> Tensor:
        """Who is noisy (clients, bool); who did not answer counts as clean."""
        noisy = torch.zeros(s.clients, dtype=torch.bool)
        if replies:
            losses = torch.stack([reply.arrays[LOSSES].double() for reply in replies])
            losses = losses.masked_fill(losses < 0, torch.nan)
            noisy[torch.tensor([reply.client for reply in replies])] = noisy_clients(losses)
        return noisy

    def join(self, s: Server, replies: list[Reply]) -> None:
        """The next model."""
        join_by_distance(s, replies)
