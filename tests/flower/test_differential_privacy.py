"""Differential privacy on Flower, with its real wrappers, messages and clipping mod."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from direct import DirectGrid, run_config
from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.supercore.task_identity import TaskIdentity
from torch import nn
from toys import TINY, settings

from flr import config
from flr.config import Config
from flr.core import registry
from flr.core.arrays import Arrays
from flr.core.contract import Method, Reply, Server, Task
from flr.core.errors import ConfigError
from flr.data.dataset import Normalization, TaskSpec
from flr.engine.federation import Transport
from flr.flower import differential_privacy as privacy
from flr.flower import wire
from flr.flower.apps import client_app
from flr.flower.handshake import Handshake
from flr.flower.membership import Membership
from flr.flower.server import serve
from flr.flower.settings import Flower
from flr.flower.site_app import do_task, respond
from flr.flower.transport import FlowerTransport
from flr.models.networks import weights_of
from flr.simulation.api import Run
from flr.simulation.build import buffers_of, first_networks, load_data, make_server

KINDS = ("server-clipping", "client-clipping")
PLAIN = {"train": {"model": {"name": "mlp", "hidden": 8}, "participation": 1.0}}
SITES = TINY["partition"]["clients"]


@pytest.fixture(autouse=True)
def flower_process() -> None:
    """Messages can be made only in what looks like one of Flower's own processes."""
    TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1


def private(kind: str, noise: float = 0.0, norm: float = 1.0) -> Flower:
    return Flower(privacy=kind, noise_multiplier=noise, clipping_norm=norm)


def weights(size: int = 30) -> Arrays:
    rng = torch.Generator().manual_seed(size)
    wide = torch.randn(size, size, generator=rng)
    return {"model.0.weight": wide, "model.0.bias": torch.randn(size, generator=rng).double()}


def moved(before: Arrays, length: float, seed: int = 0) -> Arrays:
    """These weights after an update of a given length."""
    rng = torch.Generator().manual_seed(seed)
    update = {n: torch.randn(v.shape, generator=rng, dtype=v.dtype) for n, v in before.items()}
    return {n: v + update[n] * (length / distance(update, {})) for n, v in before.items()}


def distance(one: Arrays, other: Arrays) -> float:
    gaps = [v.double() - other.get(n, torch.zeros(())).double() for n, v in one.items()]
    return math.sqrt(sum(float(gap.square().sum()) for gap in gaps))


def server_for(before: Arrays) -> Server:
    return Server(
        before, {}, rounds=1, clients=9, per_round=9, seed=0, aggregate=registry_rule("mean")
    )


def registry_rule(name: str) -> Any:
    return registry.get("aggregator", name).factory


WARDS = {11: {"site": "ward-0"}, 12: {"site": "ward-1"}}


def transport_on(grid: DirectGrid, sites: int = 0) -> FlowerTransport:
    """To nodes that have already said who they are."""
    names = [f"ward-{k}" for k in range(sites)]
    known = dict(zip(names, grid.nodes, strict=True))
    handshake = Handshake(grid, {}, lambda _: "", nodes=known)
    flower = Flower(wait=1.0, timeout=60.0)
    task_spec = TaskSpec(("a", "b"), (4,), (4,), Normalization((0.0,), (1.0,)), "none")
    membership = Membership("0" * 16, tuple(names), (5,) * len(names), task_spec, flower)
    return FlowerTransport(handshake, membership, {}, least=1)


def mean(flower: Flower, before: Arrays, replies: list[Reply], seed: int | None = 0) -> Arrays:
    """What the server makes of these replies."""
    server = server_for(before)
    privacy.protect(flower, server, transport_on(DirectGrid({})))
    if seed is not None:
        np.random.seed(seed)
    return server.aggregate(replies, "model.", before)


# ---- at the server


def test_the_server_clips_every_update_by_its_whole_length():
    before = weights()
    sent = [moved(before, length, seed) for seed, length in enumerate((7.0, 3.0, 0.25))]
    replies = [Reply(k, 10, arrays) for k, arrays in enumerate(sent)]
    after = mean(private("server-clipping"), before, replies)
    for name, value in before.items():
        kept = zip(sent, (1 / 7, 1 / 3, 1.0), strict=True)
        expected = value + sum((arrays[name] - value) * share for arrays, share in kept) / 3
        torch.testing.assert_close(after[name], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_without_noise_and_clipping_sites_count_alike(kind):
    before = weights()
    replies = [Reply(k, 10**k, moved(before, 1.0 + k, k)) for k in range(4)]
    after = mean(private(kind, norm=1e6), before, replies)
    alike = registry_rule("unweighted")(replies, "model.", before)
    by_samples = registry_rule("mean")(replies, "model.", before)
    assert after.keys() == before.keys()
    for name in before:
        assert after[name].dtype == before[name].dtype
        torch.testing.assert_close(after[name], alike[name], rtol=1e-6, atol=1e-6)
        assert kind == "server-clipping" or torch.equal(after[name], alike[name])
    assert distance(after, by_samples) > 0.1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("replies", [1, 4])  # of 9 that were asked
def test_the_noise_fits_the_replies_that_came(kind, replies):
    before = weights(200)
    came = [Reply(k, 5, moved(before, 0.5, k)) for k in range(replies)]
    quiet = mean(private(kind, 0.0, norm=2.0), before, came)
    noisy = mean(private(kind, 1.5, norm=2.0), before, came)
    noise = torch.cat([(noisy[n] - quiet[n]).flatten() for n in before]).double()
    expected, count = 1.5 * 2.0 / replies, noise.numel()
    assert abs(float(noise.std()) / expected - 1) < 4 / math.sqrt(2 * count)  # four sigma
    assert abs(float(noise.mean())) < 4 * expected / math.sqrt(count)
    assert (noise.abs() > 3 * expected).double().mean() < 0.01  # no heavy tails: 0.0027


def test_noise_cannot_be_told_from_a_seed():
    before = weights()
    replies = [Reply(0, 5, moved(before, 0.5))]
    runs = []
    for _ in range(2):
        np.random.seed(7)  # by other code in the process
        runs.append(mean(private("server-clipping", 1.0), before, replies, seed=None))
    assert distance(*runs) > 0.1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("change", [0.0, 1e-30])  # Flower's float32 length of the second is 0
def test_a_site_that_changed_nothing_counts_as_one(kind, change):
    before = {"model.0.weight": torch.zeros(10)}
    unmoved = {"model.0.weight": torch.full((10,), change)}
    replies = [Reply(0, 5, unmoved), Reply(1, 5, moved(before, 0.8))]
    after = mean(private(kind), before, replies)
    assert distance(after, before) == pytest.approx(0.4, rel=1e-5)


def test_no_privacy_changes_nothing():
    server, transport = server_for(weights()), transport_on(DirectGrid({}))
    rule = server.aggregate
    assert privacy.protect(Flower(), server, transport) is transport
    assert server.aggregate is rule
    assert transport.message_type == "train"
    assert not transport.extra


def test_a_run_is_declared_not_reproducible_and_no_noise_not_private(caplog):
    caplog.set_level("INFO", "flr")
    mean(private("client-clipping", 0.0, 2.5), weights(), [Reply(0, 1, moved(weights(), 1.0))])
    said = [record.getMessage() for record in caplog.records if record.name == "flr"]
    assert "client-clipping to 2.5" in said[0]
    assert "not bit-reproducible" in said[0]
    assert "noise-multiplier = 0" in said[1]


# ---- at a site


class Ward:
    """A hand-written client; it changes the weights by a given length, and may clip or not."""

    def __init__(self, length: float, **options: Any) -> None:
        self.length = length
        self.app = ClientApp()
        self.app.train("private", **options)(self.train)
        self.app.train()(self.train)

    def train(self, message: Message, context: Context) -> Message:
        _, received = wire.read(message.content)
        site = context.node_config.get("site", "ward")
        said = {"site": site, "examples": 5, "stateful": False, "seconds": 0.1}
        return Message(wire.write(said, moved(received, self.length)), reply_to=message)


def asks(before: Arrays | None, norm: float | None = 1.0, kind: str = privacy.PRIVATE) -> Message:
    extra = {} if norm is None else {"clipping_norm": norm}
    message = Message(wire.write({}, before, extra), 42, kind)
    message.metadata.__dict__["_message_id"] = "asked"
    return message


def answer(app: ClientApp, message: Message) -> Message:
    return app(message, Context(1, 42, {}, RecordDict(), {}))


@pytest.mark.parametrize(("length", "expected"), [(5.0, 1.0), (0.3, 0.3), (0.0, 0.0)])
def test_a_site_with_the_mod_clips_its_update(length, expected):
    before = weights()
    ward = Ward(length, mods=[privacy.clipping_mod])
    note, sent = wire.read(answer(ward.app, asks(before)).content)
    assert distance(sent, before) == pytest.approx(expected, rel=1e-5)
    assert note["examples"] == 5
    assert {n: v.dtype for n, v in sent.items()} == {n: v.dtype for n, v in before.items()}


def test_a_site_that_cannot_answer_says_so_to_the_server():
    app = ClientApp()
    problem = wire.write({"problem": "no data"})
    app.train("private", mods=[privacy.clipping_mod])(lambda m, _: Message(problem, reply_to=m))
    came = answer(app, asks(weights()))
    assert wire.read(came.content)[0]["problem"] == "no data"
    assert came.metadata.reply_to_message_id == "asked"
    assert came.metadata.dst_node_id == 1


def test_a_site_sends_nothing_when_it_is_not_told_how_to_clip():
    came = answer(Ward(5.0, mods=[privacy.clipping_mod]).app, asks(weights(), norm=None))
    assert came.has_error()
    assert "clipping_norm" in came.error.reason


def test_a_site_sends_nothing_when_names_differ():
    other = wire.write({}, {"model.0.other": torch.ones(3)})
    app = ClientApp()
    app.train("private", mods=[privacy.clipping_mod])(lambda m, _: Message(other, reply_to=m))
    assert "keys" in answer(app, asks(weights())).error.reason


def test_an_app_without_the_mod_cannot_answer_at_all():
    app = ClientApp()
    app.train()(Ward(5.0).train)
    assert answer(app, asks(weights(), kind="train")).has_content()
    with pytest.raises(ValueError, match="No train function registered with name 'private'"):
        answer(app, asks(weights()))


def test_our_own_app_clips_when_it_is_asked_to():
    came = answer(client_app(), asks(weights(), norm=None))
    assert came.has_error()  # of the mod: the question never reached the site
    assert "clipping_norm" in came.error.reason


# ---- between them


def asked(transport: Transport, before: Arrays) -> list[Any]:
    task = Task("fit", (0, 1), before, step=0, round=0, rounds=1)
    return transport.ask(task, {}, False)


@pytest.mark.parametrize("clips", [True, False])
def test_an_update_that_is_not_clipped_is_refused_by_name(clips, caplog):
    before = weights()
    ward = Ward(5.0, mods=[privacy.clipping_mod] if clips else [])
    grid = DirectGrid(WARDS, ward.app)
    transport = transport_on(grid, sites=2)
    reached = privacy.protect(private("client-clipping"), server_for(before), transport)
    answers = asked(reached, before)
    assert [m.metadata.message_type for m in grid.messages] == [privacy.PRIVATE] * 2
    assert [bool(a.problem) for a in answers] == [not clips] * 2
    if not clips:
        assert "length 5, more than flower.clipping-norm = 1" in answers[0].problem
        assert 'site "ward-0"' in caplog.text


@pytest.mark.parametrize("norm", [1e-3, 1.0, 100.0])
@pytest.mark.parametrize("size", [1e-3, 10.0, 1e3])
def test_rounding_at_a_site_is_not_taken_for_a_missing_mod(norm, size):
    before = {name: value.float() * size for name, value in weights(200).items()}
    ward = Ward(50 * norm, mods=[privacy.clipping_mod])
    transport = transport_on(DirectGrid(WARDS, ward.app), sites=2)
    flower = private("client-clipping", norm=norm)
    answers = asked(privacy.protect(flower, server_for(before), transport), before)
    assert [a.problem for a in answers] == ["", ""]


def test_server_clipping_asks_nothing_of_the_sites():
    before = weights()
    grid = DirectGrid(WARDS, Ward(5.0).app)
    transport = transport_on(grid, sites=2)
    answers = asked(
        privacy.protect(private("server-clipping"), server_for(before), transport),
        before,
    )
    assert {m.metadata.message_type for m in grid.messages} == {"train"}
    assert [a.problem for a in answers] == ["", ""]


# ---- whole runs


def scenario_nodes(state: Path) -> dict[int, dict[str, Any]]:
    return {1 + k: {"partition-id": k, "state-dir": str(state)} for k in range(SITES)}


def run_privately(out: Path, app: Any = None, **flower: Any) -> Run:
    grid = DirectGrid(scenario_nodes(out.parent / f"state-{out.name}"), app)
    serve(grid, run_config(settings("flr", **PLAIN, rounds=2), out, **flower))
    return Run(out)


@pytest.mark.parametrize("kind", KINDS)
def test_a_private_run_goes_through(kind, tmp_path):
    quiet = {"privacy": kind, "noise-multiplier": 0.0, "clipping-norm": 1e-6}
    run = run_privately(tmp_path / "run", **quiet)
    assert {client["status"] for client in run.clients} == {"ok"}
    first, last = (metrics["accuracy"] for metrics in run.metrics)
    assert first == last  # clipped to almost nothing


def test_a_run_goes_on_without_the_site_that_does_not_clip(tmp_path):
    ours, careless = client_app(), ClientApp()
    careless.train("private")(lambda message, context: respond(message, context, do_task))

    def app(message: Message, context: Context) -> Message:
        lax = context.node_id == 2 and message.metadata.message_type == privacy.PRIVATE
        return (careless if lax else ours)(message, context)

    strict = {"privacy": "client-clipping", "clipping-norm": 1e-3}
    clients = run_privately(tmp_path / "run", app, **strict).clients
    refused = {client["site"]: client["reason"] for client in clients if client["reason"]}
    assert refused.keys() == {"site-1"}
    assert "it does not clip" in refused["site-1"]


def test_a_model_with_batchnorm_costs_no_node_a_message(tmp_path):
    grid = DirectGrid(scenario_nodes(tmp_path / "state"))
    with pytest.raises(ConfigError, match="buffers"):
        serve(grid, run_config(settings("flr"), tmp_path / "run", privacy="server-clipping"))
    assert not grid.messages


# ---- before a run


def problems(method: Any, kind: str = "server-clipping", **changes: Any) -> list[str]:
    return list(privacy.conflicts(config.parse(settings(method, **changes)), private(kind)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", ["fedavg", "flr", ["flr", "fedprox"], "elr", "mixup"])
def test_methods_that_send_weights_only_can_be_private(kind, method):
    assert problems(method, kind) == []


@pytest.mark.parametrize(
    ("method", "words"),
    [
        ("coteaching", ['method "coteaching" trains 2', "one network"]),
        ("fedrn", ["sends besides them", "fedrn."]),
        ("feddyn", ["receives besides them: feddyn.mean_samples"]),
        ("focus", ['the task "fit"', "has others"]),
        ("fedcorr", ["looks at single replies"]),
        (["flr", "feddyn"], ["sums replies by its own rule"]),
    ],
)
def test_methods_that_do_more_are_refused(method, words):
    found = problems(method)
    assert any(all(word in problem for word in words) for problem in found), found
    assert all('flower.privacy = "server-clipping"' in problem for problem in found)
    assert all('or privacy = "none"' in problem for problem in found)
    assert not list(privacy.conflicts(config.parse(settings(method)), Flower()))


def test_a_rule_of_its_own_is_found_even_where_it_is_not_declared(monkeypatch):
    class Quiet(Method):
        def reduce(self, s: Server, task: Task, replies: list[Reply]) -> None:
            s.arrays |= replies[0].arrays

    monkeypatch.setattr(Config, "build_method", lambda _: Quiet())
    assert ["own rule" in problem for problem in problems("fedavg")] == [True]


def test_other_aggregators_are_refused():
    (problem,) = problems("fedavg", aggregate="median")
    assert 'aggregate is "median". Remove' in problem


class Scaled(nn.Module):
    """Has a parameter without a dimension."""

    def __init__(self, inputs: int, classes: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(1.0))
        self.linear = nn.Linear(inputs, classes)


def first_weights(given: Config) -> tuple[Arrays, frozenset[str]]:
    dataset = load_data(given)
    networks = first_networks(given, dataset.task_spec())
    return weights_of(networks), buffers_of(networks)


def test_models_that_flower_cannot_clip_are_refused():
    given = config.parse(settings("flr"))
    flower = private("client-clipping")
    with pytest.raises(
        ConfigError, match=r"3 buffers.*running_mean.*BatchNorm.*privacy = \"none\""
    ):
        privacy.check_weights(flower, *first_weights(given))
    privacy.check_weights(Flower(), *first_weights(given))
    privacy.check_weights(flower, *first_weights(config.parse(settings("flr", **PLAIN))))

    server = make_server(given, (5, 5), Method(), nn.ModuleList([Scaled(4, 2)]), None)
    with pytest.raises(ConfigError, match=r"the first is model\.0\.scale.*shape \(1,\)"):
        privacy.protect(flower, server, transport_on(DirectGrid({})))


@pytest.mark.parametrize("noise", [0.5, 1.0, 4.0])
@pytest.mark.parametrize("rounds", [1, 40])
def test_the_declared_epsilon_is_no_understatement(noise, rounds):
    """Against the exact delta of a Gaussian mechanism (Balle and Wang, ICML 2018)."""
    said = privacy.declaration(private("client-clipping", noise), rounds)
    epsilon = float(re.search(r"epsilon = (\S+)", said)[1])
    shift, normal = math.sqrt(rounds) / noise, torch.distributions.Normal(0.0, 1.0)
    one, two = (
        normal.cdf(torch.tensor(sign * shift / 2 - epsilon / shift, dtype=torch.float64))
        for sign in (1, -1)
    )
    assert float(one) - math.exp(epsilon) * float(two) <= privacy.DELTA


def test_a_declaration_says_what_was_done():
    said = privacy.declaration(private("client-clipping", 2.0, 3.0), 10)
    assert "each site clips updates to length 3" in said
    assert "at most 3 / n" in said
    assert "standard deviation 6 / n" in said
    assert "the server clips" in privacy.declaration(private("server-clipping", 2.0), 10)
    assert "no privacy" in privacy.declaration(private("server-clipping", 0.0), 10)
    assert privacy.declaration(Flower(), 10) == ""
