"""Choosing samples of a site by their losses, and batches of the chosen ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from flr.core.contract import Batch, Client, Site
from flr.methods.shared.mixtures import two_groups
from flr.models.inference import logits_of


def small_loss(losses: Tensor, forget_rate: float) -> Tensor:
    """The rows of the int((1 - F) b) smallest losses, smallest first; at least one.

    Args:
        losses: One for each row (b).
        forget_rate: The share of rows that is left out (F).

    Example:
        >>> import torch
        >>> from flr.plugin import small_loss
        >>> small_loss(torch.tensor([0.3, 2.0, 0.1, 0.9]), forget_rate=0.5).tolist()
        [2, 0]
    """
    remember = max(int((1 - forget_rate) * len(losses)), 1)
    return losses.argsort(stable=True)[:remember]


def forget_rate_at(t: int, forget_rate: float, num_gradual: int, exponent: float = 1.0) -> float:
    """F(t): the t-th of linspace(0, F^c, T_k), and F after T_k."""
    if t >= num_gradual:
        return forget_rate
    return float(forget_rate**exponent) * t / max(num_gradual - 1, 1)


def sample_losses(network: nn.Module, site: Site) -> Tensor:
    """CE of every sample of a site with its given label, in eval mode, without augmentation.

    Args:
        network: One of `c.model`, say.
        site: The samples: `c.data`.

    Example:
        >>> import torch
        >>> from flr.plugin import Site, sample_losses
        >>> site = Site("ward-7", torch.zeros(3, 5), torch.tensor([0, 1, 1]), classes=2)
        >>> sample_losses(torch.nn.Linear(5, 2, bias=False), site).exp().round()  # it knows nothing
        tensor([2., 2., 2.])
    """
    return F.cross_entropy(logits_of(network, site.x), site.y, reduction="none")


def draw_seed(c: Client) -> int:
    """A seed for a generator that is not torch's, from the method's own.

    Args:
        c: What every hook at a client is given.

    Example:
        >>> import torch
        >>> from types import SimpleNamespace
        >>> from flr.plugin import draw_seed
        >>> client = SimpleNamespace(rng=torch.Generator().manual_seed(1))
        >>> draw_seed(client) != draw_seed(client)
        True
    """
    return int(torch.randint(2**31, (), generator=c.rng))


def estimated_noise(c: Client) -> float:
    """The share of the larger-loss component, by the mean loss of the received networks.

    For `begin`: the client's networks are still the received ones.
    """
    losses = torch.stack([sample_losses(network, c.data) for network in c.model]).mean(0)
    return float(two_groups(losses, draw_seed(c)).double().mean())


def confident_noise(c: Client) -> float:
    """The share of labels that another class is confidently preferred to, as in `off_diagonal`."""
    p = torch.stack([logits_of(network, c.data.x).softmax(1) for network in c.model]).mean(0)
    return off_diagonal(p, c.data.y)


def off_diagonal(p: Tensor, y: Tensor) -> float:
    """How many labels are wrong by the confident joint: Northcutt et al., JAIR 2021.

    A sample counts for the class of largest p among those where p reaches the mean p_c of the
    samples labelled c. So a network that is right on seven samples of ten, and not sure of the
    others, finds few wrong labels where there are none.
    """
    classes = p.shape[1]
    one_hot = F.one_hot(y, classes).to(p)
    held = one_hot.sum(0)
    threshold = (one_hot * p).sum(0) / held.clamp_min(1)
    sure = (p >= threshold) & (held > 0)
    guess = p.masked_fill(~sure, -1.0).argmax(1)
    counted = sure.any(1)
    joint = one_hot[counted].T @ F.one_hot(guess[counted], classes).to(p)  # given x guessed
    right = torch.where(joint.sum(1) > 0, joint.diagonal() / joint.sum(1).clamp_min(1), 1.0)
    return float((held * (1 - right)).sum() / held.sum())


ESTIMATES = {"estimate": estimated_noise, "confident": confident_noise}


def noise_of(c: Client, forget_rate: float | str) -> float:
    """A rate that is given, or one that the site estimates by the received networks."""
    return ESTIMATES[forget_rate](c) if isinstance(forget_rate, str) else forget_rate


def take(b: Batch, rows: Tensor) -> Batch:
    """Some rows of a batch; where it is mixed, `plain` begins with those rows as well."""
    part = Batch(b.x[rows], b.y[rows], b.index[rows], b.networks)
    if b.plain is None or b.partner is None:
        return part
    others = torch.ones(len(b.plain.x), dtype=torch.bool, device=rows.device)
    others[rows] = False
    order = torch.cat([rows, others.nonzero()[:, 0]])
    partner = order.argsort()[b.partner[rows]]
    return replace(part, plain=take(b.plain, order), partner=partner, weight=b.weight)


def subset(c: Client, rows: Tensor) -> Client:
    """The client as if it had these samples only; generators are shared."""
    return replace(c, data=c.data.map(lambda held: held[rows]))


def batches_of(c: Client, rows: Tensor) -> Iterator[Batch]:
    """One epoch over some samples; `index` still counts in the whole site.

    Args:
        c: What every hook at a client is given.
        rows: The numbers of the samples at the site.

    Example:
        The method in `help(flr.plugin)` trains on such batches.
    """
    for b in c.make_batches(subset(c, rows)):
        yield replace(b, index=rows[b.index])


def two_views(c: Client, rows: Tensor) -> Iterator[tuple[Batch, Batch]]:
    """One epoch over some samples in random order, each batch augmented twice."""
    order = int(torch.randint(2**62, (), generator=c.order))
    one, two = (torch.Generator().manual_seed(order) for _ in range(2))
    first = batches_of(replace(c, order=one), rows)
    second = batches_of(replace(c, order=two, augmentation=c.rng), rows)
    return zip(first, second, strict=True)
