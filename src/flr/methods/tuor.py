"""Tuor et al., ICPR 2020.

*Overcoming Noisy and Irrelevant Data in Federated Learning.*
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Annotated

import torch
from annotated_types import Ge
from torch import Tensor

from flr.core.arrays import Arrays, with_prefix
from flr.core.contract import MODEL, Batch, Client, Method, Reply, Server, Task
from flr.core.registry import register
from flr.core.traits import Declared, Traits
from flr.methods.shared.lid import output_losses
from flr.methods.shared.selection import batches_of
from flr.models.inference import method_logits

BINS = 200
EDGES = torch.logspace(-6, 2, BINS - 1, dtype=torch.float64)  # of losses; each 10 % above the last


def histogram(losses: Tensor, edges: Tensor = EDGES) -> Tensor:
    """How many losses lie at or below the first edge, between each two, and above the last."""
    bins = torch.bucketize(losses.detach().double().cpu(), edges)
    return torch.bincount(bins, minlength=len(edges) + 1).to(torch.float32)


def _at_most_its_samples(reply: Reply) -> Tensor:
    """A site's histogram; one that counts more losses than the site has samples is scaled down."""
    counts = reply.arrays["tuor.histogram"]
    return counts * min(1.0, reply.examples / max(float(counts.sum()), 1.0))


def ks_distances(benchmark: Tensor, clients: Tensor) -> Tensor:
    """For each bin b: the largest gap between two distributions, clients' cut off after b.

    Both are counts of the same bins. A cut that leaves no sample has the distance 1.
    """
    F = benchmark.double().cumsum(0) / benchmark.double().sum()  # noqa: N806
    N = clients.double().cumsum(0)  # noqa: N806
    cut = torch.minimum(N[None, :], N[:, None]) / N[:, None].clamp(min=1)  # cut x bin
    return torch.where(N > 0, (cut - F).abs().amax(1), 1.0)


def choose_threshold(benchmark: Tensor, clients: Tensor, edges: Tensor = EDGES) -> Tensor:
    """The edge at which the clients' losses, kept up to it, are most like the benchmark's."""
    best = int(ks_distances(benchmark, clients).argmin())
    return edges[best] if best < len(edges) else torch.tensor(torch.inf, dtype=edges.dtype)


def kept(losses: Tensor, threshold: float) -> Tensor:
    """The rows whose loss is at most the threshold; the two smallest where there are fewer."""
    least = losses.argsort(stable=True)[:2].sort().values
    rows = (losses <= threshold).nonzero().flatten()
    return rows if len(rows) >= len(least) else least


@register("tuor", title="Tuor et al.", paper="Tuor et al., ICPR 2020", year=2020)
@dataclass(frozen=True)
class Tuor(Method):
    """Filters samples once, by their loss under a model trained on clean samples; then FedAvg.

    Equation:
        l_i    = CE of sample i under the benchmark model
        lambda = argmin KS(losses of held-out clean samples,
                           losses of all clients that are <= lambda)
        clients train on samples with l_i <= lambda only

    Needs [scenario] benchmark: one half trains the benchmark model (`passes` times the local
    epochs), the other is held out. Clients count by what they kept; at least two samples each.

    State: the losses under the benchmark model.
    Leaves the site: once a histogram of its losses (200 bins); weights and how many it kept.
    Differs: the original sends losses; a histogram on fixed edges, 10 % apart, is enough for the
    search. No authors' code is public.
    """

    passes: Annotated[int, Ge(1)] = 20

    traits = Traits(
        approach=("selection",),
        sends=(
            Declared(
                "tuor.histogram", (BINS,), "losses under the benchmark model", when="once", least=0
            ),
            Declared(
                "tuor.kept", (), "samples it trains on", torch.int32, "with the weights", least=0
            ),
        ),
        receives=(Declared("tuor.threshold", (), "the largest loss that is kept"),),
        keeps=(Declared("tuor.losses", ("samples",), "losses under the benchmark model"),),
        cost=(
            "one forward and one backward pass per batch of what is kept; once, a forward pass "
            "over the site, and training on clean samples at the server"
        ),
        supervised=True,
    )

    # ---- at the client, and on the clean samples, where the inbox names a half of them

    def begin(self, c: Client) -> None:
        c.scratch["tuor.rows"] = self.rows(c)

    def rows(self, c: Client) -> Tensor:
        """The samples to work on."""
        if "tuor.half" in c.inbox:
            by_class = c.data.y.argsort(stable=True)
            half = by_class[int(c.inbox["tuor.half"]) :: 2]
            return half if len(by_class) > 3 else by_class
        if "tuor.losses" not in c.state:  # it was lost when all were asked for them
            return torch.arange(len(c.data), device=c.data.y.device)
        threshold = float(c.inbox["tuor.threshold"])
        return kept(c.state["tuor.losses"], threshold).to(c.data.y.device)

    def batches(self, c: Client, epoch: int) -> Iterator[Batch]:
        return batches_of(c, c.scratch["tuor.rows"])

    def finish(self, c: Client) -> Arrays:
        return {"tuor.kept": torch.tensor(len(c.scratch["tuor.rows"]), dtype=torch.int32)}

    def tasks(self) -> dict[str, Callable[[Client], Arrays]]:
        return {"tuor-losses": self.measure}

    @torch.no_grad()
    def measure(self, c: Client) -> Arrays:
        """Keeps the losses of the site under the received model; tells their histogram."""
        logits = method_logits(c.method, c.model, c.data.x)
        losses = output_losses(logits, c.data.y)
        if "tuor.half" in c.inbox:
            return {"tuor.histogram": histogram(losses[self.rows(c)])}
        c.state["tuor.losses"] = losses.cpu()
        return {"tuor.histogram": histogram(losses)}

    # ---- at the server

    def start(self, s: Server) -> None:
        s.arrays["tuor.threshold"] = torch.tensor(torch.inf)

    def plan(self, s: Server) -> Task | None:
        if "tuor.histogram" in s.state:
            return super().plan(s)
        everyone = s.task("tuor-losses", tuple(range(s.clients)))
        return replace(everyone, arrays=s.arrays | self.train_benchmark(s))

    def train_benchmark(self, s: Server) -> Arrays:
        """A model of one half of the clean samples."""
        weights = with_prefix(s.arrays, MODEL)
        for number in range(self.passes):
            half = weights | {"tuor.half": torch.tensor(0)}
            sent = replace(s, step=number).on_benchmark("fit", half)
            weights = with_prefix(sent, MODEL)
        return weights

    def reduce(self, s: Server, task: Task, replies: list[Reply]) -> None:
        if task.name == "tuor-losses":
            half = task.arrays | {"tuor.half": torch.tensor(1)}
            held_out = s.on_benchmark("tuor-losses", half)["tuor.histogram"]
            total = torch.stack([_at_most_its_samples(reply) for reply in replies]).sum(0)
            s.state["tuor.histogram"] = total
            s.arrays["tuor.threshold"] = choose_threshold(held_out, total).float()
            return
        counted = [
            replace(r, examples=min(int(r.arrays["tuor.kept"]), r.examples)) for r in replies
        ]
        super().reduce(s, task, counted)
