"""FedSIR: Gholami et al., arXiv 2604.20825, 2026.

*FedSIR: Spectral Client Identification and Relabeling for Federated Learning with Noisy Labels.*
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import torch
import torch.nn.functional as F
from annotated_types import Ge, Gt, Le
from torch import Tensor

from flr.core.arrays import Arrays
from flr.core.contract import MODEL, Batch, Client, Method, Reply, Server, Task
from flr.core.registry import register
from flr.core.traits import Declared, Traits
from flr.methods.shared.class_directions import (
    ROWS,
    ClassDirections,
    agreed,
    alikeness,
    class_directions,
    relabelled,
)
from flr.methods.shared.mixtures import smaller_first_mean
from flr.methods.shared.network_copies import renamed
from flr.methods.shared.noisy_clients import (
    NOISY,
    adjusted_ce,
    adjusted_log_softmax,
    class_counts,
    distillation,
    is_noisy,
    join_by_distance,
    sigmoid_ramp,
)
from flr.models.inference import in_batches
from flr.models.networks import embed

if TYPE_CHECKING:
    from flr.config import Config

ALIKE, RELABELLED, CLEAN = "fedsir.alike", "fedsir.relabelled", "fedsir.clean."
TOLD = ClassDirections.declared("fedsir.", "before others are relabelled")
PARTS = tuple(one.name for one in TOLD)
SHARED = PARTS[:2]  # what noisy clients receive: directions and residuals
LABELS, DISTILLED = "fedsir.labels", "fedsir.distilled"
SEED = 42  # of the mixture, as the authors'; thirty starts make it matter little


def fedsir_loss(logits: Tensor, soft: Tensor, y: Tensor, counts: Tensor, w: Tensor) -> Tensor:
    """mean_i w_i KL(s_i || exp a_i) + (1 - w_i) (-a_{i,y}), with a weight of each sample."""
    hard = F.nll_loss(adjusted_log_softmax(logits, counts), y, reduction="none")
    return (w * distillation(logits, soft, counts) + (1 - w) * hard).mean()


def clean_clients(u: Tensor, seed: int = SEED) -> Tensor:
    """Which clients are clean (bool), of their u (n x 2): the least alike classes; all if none."""
    clean = smaller_first_mean(u, seed) >= 0.5
    return clean if clean.any() else torch.ones_like(clean)


def features_of(c: Client) -> Tensor:
    """What the head takes of each sample, in eval mode, without augmentation (n x d, float64)."""
    network = c.model[0]
    return in_batches(network, lambda x: embed(network, x)[1], c.data.x).double().cpu()


@register("fedsir", title="FedSIR", paper="Gholami et al., arXiv 2604.20825", year=2026)
@dataclass(frozen=True)
class FedSIR(Method):
    """Noise makes a client's classes alike in feature space; clean clients' classes give labels.

    Equation:
        1  all train by CE; v_c = first right singular vector of the features
           of given class c; u_k = (mean, mean square) of |v_c . v_c'|
           clean: of two Gaussians over u the one of smaller mean
           w <- mean of the clean clients' w_k, by n_k
        2  every relabel_every rounds, by the clean clients' mean model:
           A_ic = |h_i . v_c| / |h_i|,  B_ic = |V_c h_i| / sqrt(rows of V_c)
           y'_i = argmax A_i if that is argmin B_i, else y_i
           v_c: top eigenvector of the mean of v v^T, V_c: top 12 of V^T V,
           over clean clients, by n gap ratio of class c
        3  pi_c = max(n_kc, 1) / n_k;  a = log softmax(z + log pi)
           L = mean_i -a_{i,y}                             clean clients
           L = mean_i w_i KL(s_i || exp a_i) + (1 - w_i) (-a_{i,y'})
               s = softmax(z_srv / temperature)            noisy clients
           w_i = weight exp(-5 (1 - (r - ramp_begin) / (ramp_end - ramp_begin))^2)
                 where argmax A is not argmin B (before 2: everywhere), else 0
           w <- DaAgg, as FedNoRo

    Stage 1 takes identify_epochs and is no round. V of a client are its singular vectors after
    the first k, whose singular values are 10/11 of all; gap = (S_1 - S_2) / S_1, ratio = S_1 /
    sum S. Classes with identify_samples count in u (all, if fewer than two have them), clients
    with share_samples in v_c and V_c; where none has, or the eigenvalues of the first are closer
    than 0.03, the one with the most samples is taken as it is. The network needs a linear head.
    relabel_every is by default a fifth of the rounds, ramp_end 0.49 of them.
    State: labels as corrected, and which samples learn from the global model, at noisy clients.
    Leaves the site: weights, the number of samples; once u; from clean sites, before noisy ones
    are relabelled, of each class a direction, 12 residual ones, its size, gap and ratio.
    Differs: features of plain images, the authors' in stage 1 are of augmented ones; their kd_temp
    is never read, and the temperature is 0.8; a class without residual is never assigned (theirs
    always wins), nor is one that no clean client has (an error there); eigenvectors count above
    1e-9; without a clean client all are (an error there). Who did not answer counts as clean. The
    optimiser of stage 1 is the config's; the authors' is Adam with identify_lr = 5e-5 and
    identify_weight_decay = 5e-2. The clean clients' mean is that of the last round that had one.
    """

    identify_epochs: Annotated[int, Ge(1)] = 5
    identify_lr: Annotated[float, Gt(0)] | None = None
    identify_weight_decay: Annotated[float, Ge(0)] | None = None
    identify_samples: Annotated[int, Ge(1)] = 20
    relabel_every: Annotated[int, Ge(1)] | None = None
    share_samples: Annotated[int, Ge(1)] = 100
    ramp_begin: Annotated[int, Ge(0)] = 2
    ramp_end: Annotated[int, Ge(1)] | None = None
    weight: Annotated[float, Ge(0), Le(1)] = 0.2
    temperature: Annotated[float, Gt(0)] = 0.8

    traits = Traits(
        approach=("correction", "loss", "aggregation"),
        sends=(Declared(ALIKE, (2,), "how alike its classes are", when="once"), *TOLD),
        receives=(
            Declared(NOISY, (), "whether it was found noisy", torch.bool, "after stage 1"),
            Declared(SHARED[0], ("classes", "features"), "agreed directions", when="to relabel"),
            Declared(
                SHARED[1], ("classes", ROWS, "features"), "agreed residuals", when="to relabel"
            ),
        ),
        keeps=(
            Declared(LABELS, ("samples",), "labels as corrected", torch.int64, "at noisy clients"),
            Declared(
                DISTILLED,
                ("samples",),
                "which learn from the global model",
                torch.bool,
                "at noisy clients",
            ),
        ),
        cost=(
            "one forward and one backward pass per batch, at noisy clients one more forward pass "
            "of the global model; a first training of all clients; a few times a pass over the "
            "site, and at clean ones a singular value decomposition for each class"
        ),
        individual=True,
        aggregates=True,
        owns=("batches",),  # nothing may mix samples: labels are corrected one by one
        note=(
            "Before the first round all clients train once, which counts as no round. Two groups "
            "are always found: without noise some clients are called noisy as well."
        ),
    )

    def check(self, config: Config) -> Iterable[str]:
        if self.ramp_end is not None and self.ramp_end <= self.ramp_begin:
            yield (
                f"ramp_end = {self.ramp_end} is not after ramp_begin = {self.ramp_begin}. "
                f"Use ramp_end = {self.ramp_begin + 1} or more, or leave it out"
            )

    def weight_at(self, r: int, rounds: int) -> float:
        """w of round r, where the global model is heard."""
        late = max(self.ramp_begin + 1, round(0.49 * rounds))
        end = late if self.ramp_end is None else self.ramp_end
        return sigmoid_ramp(r, self.ramp_begin, end, self.weight)

    # ---- at the client; in stage 1 it is not told whether it is noisy

    def begin(self, c: Client) -> None:
        if NOISY not in c.inbox:
            c.train = c.train.model_copy(update=self.first_training(c))
            return
        c.scratch["fedsir.counts"] = class_counts(c.data.y, c.data.classes).clamp(min=1)
        if is_noisy(c):
            distilled = c.state.get(DISTILLED, torch.ones(len(c.data), dtype=torch.bool))
            weights = self.weight_at(c.round, c.rounds) * distilled
            c.scratch["fedsir.weights"] = weights.to(c.data.y.device)
            c.data = replace(c.data, y=c.state.get(LABELS, c.data.y).to(c.data.y.device))

    def first_training(self, c: Client) -> dict[str, float | bool]:
        """What is other in stage 1; its momentum is not for the rounds."""
        lr, decay = self.identify_lr, self.identify_weight_decay
        return {
            "epochs": self.identify_epochs,
            "keep_optimizer": False,
            "lr": c.train.lr if lr is None else lr,
            "weight_decay": c.train.weight_decay if decay is None else decay,
        }

    def criterion(self, c: Client, logits: Tensor, b: Batch) -> Tensor:
        if NOISY not in c.inbox:
            return F.cross_entropy(logits, b.y)
        return adjusted_ce(logits, b.y, c.scratch["fedsir.counts"])

    def loss(self, c: Client, b: Batch) -> Tensor:
        if not is_noisy(c):
            return super().loss(c, b)
        logits = c.model[0](b.x)
        with torch.no_grad():
            soft = (c.reference[0](b.x) / self.temperature).softmax(1)
        w = c.scratch["fedsir.weights"][b.index].to(logits)
        total = fedsir_loss(logits, soft, b.y, c.scratch["fedsir.counts"], w)
        return total + c.method.regularize(c, 0, logits, b)

    def finish(self, c: Client) -> Arrays:
        if NOISY in c.inbox:
            return {}
        found = class_directions(features_of(c), c.data.y.cpu(), c.data.classes)
        large = found.samples >= self.identify_samples
        used = large if large.sum() > 1 else found.samples > 0
        return {ALIKE: alikeness(found.direction[used]).float()}

    def tasks(self) -> dict[str, Callable[[Client], Arrays]]:
        return {"directions": self.tell_directions, "relabel": self.relabel}

    def tell_directions(self, c: Client) -> Arrays:
        """What a clean site tells of its classes, by the received model."""
        found = class_directions(features_of(c), c.data.y.cpu(), c.data.classes)
        return {name: part.float() for name, part in zip(PARTS, found, strict=True)}

    def relabel(self, c: Client) -> Arrays:
        """A noisy site corrects its given labels; nothing but a receipt is sent."""
        directions, residuals = (c.inbox[name].double() for name in SHARED)
        labels, distilled = relabelled(features_of(c), c.data.y.cpu(), directions, residuals)
        c.state |= {LABELS: labels, DISTILLED: distilled}
        return {}

    # ---- at the server

    def start(self, s: Server) -> None:
        s.state[RELABELLED] = torch.tensor(0)  # the round before which it was done last

    def plan(self, s: Server) -> Task | None:
        if s.round == s.rounds:
            return None
        if NOISY not in s.state:
            return s.task("fit", tuple(range(s.clients)), optional=True)
        if self.is_due(s):
            return self.ask_about_labels(s)
        clients = s.sample()
        return s.task("fit", clients, {k: {NOISY: s.state[NOISY][k].clone()} for k in clients})

    def is_due(self, s: Server) -> bool:
        """Whether noisy clients are to be relabelled before this round."""
        default = max(1, round(s.rounds / 5))
        every = default if self.relabel_every is None else self.relabel_every
        late = s.round % every == 0 and int(s.state[RELABELLED]) < s.round
        return late and bool(s.state[NOISY].any())

    def ask_about_labels(self, s: Server) -> Task:
        """Clean clients for directions first; noisy ones then get what those agree on."""
        told = SHARED[0] in s.state
        asked = s.state[NOISY] if told else ~s.state[NOISY]
        clients = tuple(asked.nonzero().flatten().tolist())
        task = s.task("relabel" if told else "directions", clients, optional=True)
        shared = {name: s.state[name] for name in SHARED} if told else {}
        return replace(task, arrays=s.arrays | renamed(s.state, CLEAN, MODEL) | shared)

    def reduce(self, s: Server, task: Task, replies: list[Reply]) -> None:
        if task.name == "directions" and replies:
            sites = [ClassDirections(*(r.arrays[name] for name in PARTS)) for r in replies]
            both = agreed(sites, self.share_samples)
            s.state |= {name: part.float() for name, part in zip(SHARED, both, strict=True)}
        elif task.name != "fit":  # over, or nobody clean was there to tell
            s.state[RELABELLED] = torch.tensor(s.round)
            for name in SHARED:
                s.state.pop(name, None)
        elif NOISY not in s.state:
            self.identify(s, replies)
        else:
            self.keep_clean(s, replies)
            join_by_distance(s, replies)
            s.arrays |= {  # integers as the first client has them
                name: value
                for name, value in replies[0].arrays.items()
                if name in s.arrays and not value.is_floating_point()
            }
            s.round += 1

    def identify(self, s: Server, replies: list[Reply]) -> None:
        """Finds the noisy clients; the first model is the mean of the others."""
        s.state[NOISY] = torch.zeros(s.clients, dtype=torch.bool)
        if replies:
            clean = clean_clients(torch.stack([r.arrays[ALIKE] for r in replies]))
            s.state[NOISY][torch.tensor([r.client for r in replies])] = ~clean
        s.arrays |= self.keep_clean(s, replies)

    def keep_clean(self, s: Server, replies: list[Reply]) -> Arrays:
        """The mean model of the clean clients, as kept from the last round that had one."""
        clean = [reply for reply in replies if not s.state[NOISY][reply.client]]
        mean = s.aggregate(clean, MODEL, s.arrays) if clean else {}
        s.state |= renamed(mean, MODEL, CLEAN)
        return mean
