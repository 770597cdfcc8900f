"""Differential privacy of whole sites, by Flower's own wrappers.

An update (what a site changed in the weights) is clipped to a length, by the server or by the site
itself, the updates are averaged, and Gaussian noise is added to the mean. All of that is Flower's
code; here is what it takes for granted: which runs it is sound for, that every site counts alike,
that the noise fits the replies which really came, and that sites do clip.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import resources
from typing import cast

import numpy as np
import torch
from flwr.app import ArrayRecord, Context, Error, Message, RecordDict
from flwr.clientapp.mod import fixedclipping_mod
from flwr.clientapp.typing import ClientAppCallable
from flwr.common.constant import ErrorCode
from flwr.serverapp.strategy import (
    DifferentialPrivacyClientSideFixedClipping,
    DifferentialPrivacyServerSideFixedClipping,
    FedAvg,
    Strategy,
)
from flwr.supercore.differential_privacy import KEY_CLIPPING_NORM, get_norm

from flr.aggregate import weighted_average
from flr.aggregate.means import update_norms
from flr.client.worker import ClientResult
from flr.config import Config
from flr.core.arrays import Arrays, with_prefix
from flr.core.contract import Reply, Server, Task
from flr.core.errors import ConfigError
from flr.engine.federation import Transport
from flr.engine.refuse_replies import fault
from flr.flower import wire
from flr.flower.settings import Flower
from flr.flower.transport import FlowerTransport

log = logging.getLogger("flr")

PRIVATE = "train.private"  # apps have it only with the clipping mod: without, a site cannot answer
DELTA = 1e-5  # of the (epsilon, delta) that is declared
_ARRAYS = "arrays"
_SLACK = 1e-3  # of the clipping norm: Flower measures lengths in the weights' own precision


def conflicts(config: Config, flower: Flower) -> Iterator[str]:
    """Why this experiment cannot be private, as far as the config alone can tell."""
    if flower.privacy == "none":
        return
    method = config.build_method()
    head = f'flower.privacy = "{flower.privacy}"'
    one = f'method "{config.label}"'
    advice = 'Use a method that sends weights only, such as "fedavg" or "flr", or privacy = "none".'
    if method.traits.networks > 1:
        yield f"{head} is for one network; {one} trains {method.traits.networks}. {advice}"
    for arrays, verb in ((method.traits.sends, "sends"), (method.traits.receives, "receives")):
        if arrays:
            names = ", ".join(d.name for d in arrays)
            yield f"{head} covers weights; {one} {verb} besides them: {names}. {advice}"
    if method.tasks():
        names = ", ".join(sorted(method.tasks()))
        yield f'{head} covers the task "fit"; {one} has others: {names}. {advice}'
    if method.traits.individual:
        yield f"{head} shows only the noisy mean; {one} looks at single replies. {advice}"
    if method.traits.aggregates or method.owns("reduce"):
        yield f"{head} adds noise to a plain mean; {one} sums replies by its own rule. {advice}"
    if flower.refuse_norm:
        yield f"{head} hides single updates; flower.refuse-norm looks at them. Leave it out."
    if config.aggregate.name != "mean":
        yield (
            f'{head} adds noise to a plain mean; aggregate is "{config.aggregate.name}". Remove '
            "aggregate; clipping already limits what a single site can do."
        )


def check_weights(flower: Flower, weights: Arrays, buffers: Collection[str]) -> None:
    """Refuses what no gradient moves, what is no float, and what Flower forgets to clip."""
    if flower.privacy == "none":
        return
    kept = [n for n, v in weights.items() if n in buffers or not v.is_floating_point()]
    single = [n for n, v in weights.items() if n not in kept and v.dim() == 0]
    problems = []
    if kept:
        problems.append(
            f"{len(kept)} buffers or whole numbers (the first is {kept[0]}), such as BatchNorm's "
            'statistics, which noise would spoil. Use a model without, such as "cnn" or "mlp"'
        )
    if single:
        problems.append(
            f"{len(single)} numbers without a dimension (the first is {single[0]}), which Flower "
            "does not clip. Give them the shape (1,)"
        )
    if problems:
        raise ConfigError(
            f'flower.privacy = "{flower.privacy}" needs a model of trained weights only; this one '
            f'has {"; it has ".join(problems)}, or set privacy = "none".'
        )


def protect(flower: Flower, server: Server, transport: FlowerTransport) -> Transport:
    """Makes the run private, as `flower.privacy` says; gives the transport that it has to use."""
    if flower.privacy == "none":
        return transport
    check_weights(flower, server.arrays, server.buffers)
    # a seed that other code has set would let anybody compute the noise and take it off again
    np.random.seed()
    server.aggregate = PrivateMean(flower)
    how = (flower.privacy, flower.clipping_norm, flower.noise_multiplier)
    log.info("Differential privacy: %s to %g, noise multiplier %g; not bit-reproducible.", *how)
    if not flower.noise_multiplier:
        log.warning("flower.noise-multiplier = 0: updates are clipped, but nothing is private.")
    if flower.privacy == "server-clipping":
        return transport
    transport.message_type = PRIVATE
    transport.extra = {KEY_CLIPPING_NORM: flower.clipping_norm}
    return ClippedOnly(transport, flower.clipping_norm)


def declaration(flower: Flower, rounds: int) -> str:
    """What a run of so many rounds promises and what not, for its report; empty without privacy.

    Epsilon holds without counting on sampling: each round is 1 / (2 z^2) zero-concentrated, z being
    the noise multiplier, and epsilon = rho + 2 sqrt(rho ln(1 / delta)) for the sum rho of all
    rounds (Bun and Steinke, TCC 2016).
    """
    if flower.privacy == "none":
        return ""
    z = flower.noise_multiplier
    promise = "With noise multiplier 0 there is no noise, and no privacy."
    if z > 0:
        rho = rounds / (2 * z**2)
        epsilon = rho + 2 * math.sqrt(rho * math.log(1 / DELTA))
        promise = (
            f"Over {rounds} rounds that is epsilon = {epsilon:.3g} at delta = {DELTA:g} for a site "
            "that takes part in all of them; rounds that a resumed run repeats come on top."
        )
    text = (resources.files("flr.flower") / "differential_privacy.txt").read_text(encoding="utf-8")
    return " ".join(text.split()).format(
        where="the server" if flower.privacy == "server-clipping" else "each site",
        norm=flower.clipping_norm,
        deviation=z * flower.clipping_norm,
        z=z,
        promise=promise,
    )


@dataclass(frozen=True)
class PrivateMean:
    """The server's aggregation rule: clips where sites do not, averages, adds noise.

    Noise is set for the replies that came, not for the clients that were asked. The sum of clipped
    updates always gets noise of z * norm, whoever answered, and is then divided by the number of
    replies: when sites are lost the mean is noisier and no less private. Noise for the number asked
    would be too little. That number, like who took part, is not hidden.
    """

    flower: Flower

    def __call__(self, replies: list[Reply], prefix: str, previous: Arrays) -> Arrays:
        before = with_prefix(previous, prefix)
        record = wire.to_record(before)
        settings = (self.flower.noise_multiplier, self.flower.clipping_norm, len(replies))
        wrapper: Strategy
        if self.flower.privacy == "server-clipping":
            wrapper = DifferentialPrivacyServerSideFixedClipping(UniformMean(before), *settings)
            wrapper.current_arrays = record
        else:
            wrapper = DifferentialPrivacyClientSideFixedClipping(UniformMean(before), *settings)
        messages = []
        for reply in replies:  # only the content counts
            weights = wire.to_record({name: reply.arrays[name] for name in record})
            content = RecordDict({_ARRAYS: weights} if _moved(record, weights) else {})
            messages.append(Message(content, reply.client, PRIVATE))
        noisy, _ = wrapper.aggregate_train(0, messages)
        return wire.from_record(cast(ArrayRecord, noisy))  # None is for replies with errors


class UniformMean(FedAvg):
    """The strategy inside Flower's wrapper: a mean in which every site counts alike.

    Flower's noise is for a sensitivity of norm / replies. Weighted by samples, a site with half of
    all samples would move the mean by norm / 2: the noise would hide small sites only.

    A message without arrays stands for a site that changed nothing. Nothing else of a strategy is
    used: the loop, its messages and its log lines are those of flr.
    """

    def __init__(self, before: Arrays) -> None:
        super().__init__()
        self.before = before

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord, None]:
        """The mean, in float64 and in the order given, like the other rules."""
        records = [reply.content.array_records.get(_ARRAYS) for reply in replies]
        found = [self.before if r is None else wire.from_record(r) for r in records]
        mean = {
            name: weighted_average([w[name] for w in found], [1.0] * len(found)).to(value.dtype)
            for name, value in self.before.items()
        }
        return wire.to_record(mean), None


@dataclass(frozen=True)
class ClippedOnly:
    """A transport that refuses updates which are longer than a site may send.

    Flower's wrapper would take them: it does not look whether a site clips.
    """

    inner: Transport
    norm: float

    def ask(self, task: Task, versions: Mapping[int, int], predict: bool) -> list[ClientResult]:
        """The results; one that is too long has a problem, and the engine leaves it out."""
        return [self._judged(task, r) for r in self.inner.ask(task, versions, predict)]

    def name(self, client: int) -> str:
        return self.inner.name(client)

    def _judged(self, task: Task, result: ClientResult) -> ClientResult:
        if result.problem or fault(task, result.reply.arrays, {}):
            return result  # the engine refuses it anyway
        (length,) = update_norms([result.reply], task.arrays, list(task.arrays)).tolist()
        if length <= longest(self.norm, task.arrays):
            return result
        problem = (
            f"its update has length {length:.4g}, more than flower.clipping-norm = {self.norm:g}: "
            "it does not clip. Run the client app of flr there, with its clipping mod"
        )
        log.warning("%s: %s.", self.name(result.reply.client), problem)
        return replace(result, problem=problem)


def longest(norm: float, weights: Arrays) -> float:
    """How long a clipped update can look: weights plus update are rounded at the site."""
    size = math.sqrt(sum(float(v.to(torch.float64).square().sum()) for v in weights.values()))
    rounding = max(torch.finfo(v.dtype).eps for v in weights.values())
    return norm * (1 + _SLACK) + rounding * (size + norm)


def clipping_mod(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
    """Flower's fixedclipping_mod, for a site; a reply without an update passes as it is.

    Flower's own would answer in the wrong direction where a site says why it cannot do a task, and
    divide by zero where training changed nothing.
    """
    aside: list[Message] = []

    def train(asked: Message, context: Context) -> Message:
        reply = call_next(asked, context)
        if reply.has_error() or _has_update(asked.content, reply.content):
            return reply
        aside.append(reply)
        return Message(Error(ErrorCode.UNKNOWN, "there is no update"), reply_to=asked)

    clipped = fixedclipping_mod(message, context, train)
    return aside[0] if aside else clipped


def _has_update(received: RecordDict, sent: RecordDict) -> bool:
    """Whether there is anything to clip; whatever looks odd is left to Flower's own checks."""
    before, after = list(received.array_records.values()), list(sent.array_records.values())
    if len(after) != 1 or list(before[0]) != list(after[0]):
        return bool(after)
    return _moved(before[0], after[0])


def _moved(before: ArrayRecord, after: ArrayRecord) -> bool:
    """Whether an update has a length, as Flower measures it; Flower divides by that."""
    pairs = zip(before.to_numpy_ndarrays(), after.to_numpy_ndarrays(), strict=True)
    return get_norm([np.subtract(new, old) for old, new in pairs]) > 0
