"""Attackers: exactly the promised ones, seeded, harmful, and what robust rules make of them."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from toys import ROUNDS, bits, settings, train, train_until

import flr
from flr import config
from flr.client.worker import ClientResult
from flr.core import registry
from flr.core.arrays import load as load_arrays
from flr.core.contract import Reply, Task
from flr.core.errors import ConfigError
from flr.data.sources.digits import Digits
from flr.engine.adversary import Adversary
from flr.scenario import scenario as scenarios
from flr.scenario.attacks.alie import ALittleIsEnough
from flr.scenario.attacks.claimed_samples import ClaimedSamples
from flr.scenario.attacks.common import attackers
from flr.scenario.attacks.constant import Constant
from flr.scenario.attacks.gaussian import Gaussian
from flr.scenario.attacks.label_flip import LabelFlip
from flr.scenario.attacks.none import NoAttack
from flr.scenario.attacks.replacement import Replacement
from flr.scenario.attacks.sign_flip import SignFlip
from flr.scenario.noises.none import NoNoise
from flr.scenario.noises.symmetric import Symmetric
from flr.scenario.partitions.iid import Iid
from flr.simulation.in_process import claims

RECEIVED = {"model.0.w": torch.ones(500), "model.0.mean": torch.ones(2), "n": torch.ones(1)}
SENT = {"model.0.w": torch.full((500,), 3.0), "model.0.mean": torch.zeros(2), "n": torch.zeros(1)}


def tampered(attack, client=1, step=4, seed=9, evil=(1, 2), honest=()):
    adversary = Adversary(attack, frozenset(evil), seed, frozenset({"model.0.mean"}))
    task = Task("fit", (0, 1, 2), RECEIVED, step, 0, 5)
    answer = ClientResult(Reply(client, 7, dict(SENT)), False, 0.0, None)
    others = [
        ClientResult(Reply(3 + k, 7, SENT | {"model.0.w": value}), False, 0.0, None)
        for k, value in enumerate(honest)
    ]
    changed, *same = adversary.tamper(task, [answer, *others])
    for before, after in zip(others, same, strict=True):
        assert torch.equal(before.reply.arrays["model.0.w"], after.reply.arrays["model.0.w"])
    assert torch.equal(answer.reply.arrays["model.0.w"], SENT["model.0.w"])
    assert (changed.reply.client, changed.reply.examples) == (client, 7)
    return changed.reply.arrays


@given(st.floats(0, 1), st.integers(1, 60), st.integers(0, 99))
def test_exactly_the_promised_attackers(share, sites, seed):
    chosen = attackers(share, sites, seed)
    assert len(set(chosen)) == len(chosen) == round(share * sites)
    assert list(chosen) == sorted(chosen)
    assert all(0 <= client < sites for client in chosen)


def test_attackers_are_chosen_at_random():
    assert len({attackers(0.3, 10, seed) for seed in range(50)}) > 20


def test_sign_flip_turns_the_update_round_and_nothing_else():
    changed = tampered(SignFlip(scale=2.0))
    assert (changed["model.0.w"] == 1 - 2.0 * (3 - 1)).all()
    assert torch.equal(changed["model.0.mean"], SENT["model.0.mean"])
    assert torch.equal(changed["n"], SENT["n"])
    assert torch.equal(tampered(SignFlip(), client=0)["model.0.w"], SENT["model.0.w"])


def test_gaussian_noise_is_seeded_by_client_and_step():
    noise = tampered(Gaussian(std=0.5))["model.0.w"] - 1
    assert abs(float(noise.std()) - 0.5) < 0.05
    assert torch.equal(tampered(Gaussian(std=0.5))["model.0.w"] - 1, noise)
    for change in ({"client": 2}, {"step": 5}, {"seed": 8}):
        assert not torch.equal(tampered(Gaussian(std=0.5), **change)["model.0.w"] - 1, noise)


def test_a_constant_is_all_that_is_sent():
    assert (tampered(Constant(value=-2.0))["model.0.w"] == -2).all()


def test_replacement_lengthens_the_update():
    assert (tampered(Replacement(scale=10.0))["model.0.w"] == 1 + 10.0 * (3 - 1)).all()


def test_a_little_is_enough_stands_beside_the_mean_of_the_honest():
    honest = [torch.full((500,), value) for value in (1.0, 3.0, 5.0)]
    changed = tampered(ALittleIsEnough(z=0.5), honest=honest)["model.0.w"]
    expected = 3 - 0.5 * (8 / 3) ** 0.5
    assert torch.allclose(changed, torch.full((500,), expected))
    assert torch.equal(tampered(ALittleIsEnough())["model.0.w"], SENT["model.0.w"])


def test_claims_count_for_no_more_than_a_third():
    counted = claims(ClaimedSamples(), [2], [10, 20, 10, 30, 40])
    assert counted == {2: 50}
    assert claims(SignFlip(), [2], [10, 20, 10, 30, 40]) == {}
    adversary = Adversary(ClaimedSamples(), frozenset({2}), 9, frozenset(), counted)
    task = Task("fit", (1, 2), RECEIVED, 4, 0, 5)
    answers = [ClientResult(Reply(k, 20, dict(SENT)), False, 0.0, None) for k in (1, 2)]
    assert [r.reply.examples for r in adversary.tamper(task, answers)] == [20, 50]


@pytest.mark.parametrize("attack", [NoAttack(), LabelFlip()])
def test_other_attacks_leave_replies_alone(attack):
    assert torch.equal(tampered(attack)["model.0.w"], SENT["model.0.w"])


def test_label_flip_is_part_of_the_scenario():
    digits = Digits().load()
    for noise in (NoNoise(), Symmetric(1.0, 0.5)):
        plain = scenarios.build(digits, Iid(10), noise, seed=1)
        flipped = scenarios.build(digits, Iid(10), noise, seed=1, attack=LabelFlip(0.3))
        chosen = attackers(0.3, 10, 1)
        assert len(chosen) == 3
        for k in range(10):
            expected = 9 - plain.given[k] if k in chosen else plain.given[k]
            assert torch.equal(flipped.given[k], expected)
        assert flipped.hash != plain.hash
        assert flipped.spec["attack"] == {"kind": "label-flip", "clients": 0.3}
    other = scenarios.build(digits, Iid(10), noise, seed=1, attack=SignFlip(0.3))
    assert other.hash == plain.hash
    assert other.spec["attack"] is None


@pytest.mark.parametrize("kind", sorted(set(registry.entries("attack")) - {"none"}))
def test_a_run_under_attack_repeats_resumes_and_shows_it(kind, tmp_path):
    attack = {"kind": kind, "clients": 0.34}
    whole = train("flr", tmp_path / "whole", attack=attack)
    assert bits(whole) == bits(train("flr", tmp_path / "two", attack=attack, workers=2))
    assert bits(whole) != bits(train("flr", tmp_path / "honest"))
    train_until("flr", tmp_path / "stopped", 2, attack=attack)
    assert bits(flr.resume(tmp_path / "stopped")) == bits(whole)
    shown = whole.summary["attack"]
    assert (shown["kind"], shown["clients"]) == (kind, 0.34)
    assert shown["attackers"] == list(attackers(0.34, 6, 5))
    assert "<h2>Attackers</h2>" in (whole.folder / "report.html").read_text()
    assert f'kind = "{kind}"' in (whole.folder / "config.toml").read_text()


def test_an_honest_run_shows_no_attack(tmp_path):
    run = train("fedavg", tmp_path / "run")
    assert run.summary["attack"] is None
    assert "Attackers" not in (run.folder / "report.html").read_text()


def test_a_saved_scenario_brings_its_label_flip(tmp_path):
    attack = {"kind": "label-flip", "clients": 0.34}
    first = train("fedavg", tmp_path / "first", attack=attack)
    saved = {"path": str(first.folder / "scenario.safetensors")}
    settled = settings("fedavg", scenario=saved)
    del settled["partition"], settled["noise"]
    again = flr.run(settled, out=tmp_path / "again")
    assert bits(again) == bits(first)
    assert again.summary["attack"] == first.summary["attack"]
    with pytest.raises(
        ConfigError, match=r"brings its own labels; \[attack\] kind = \"label-flip\""
    ):
        config.parse({**settled, "attack": attack})
    config.parse({**settled, "attack": {"kind": "sign-flip"}})


@pytest.mark.parametrize(
    "rule", ["median", "krum", "geometric-median", "norm-clip", "trimmed-mean", "unweighted"]
)
def test_every_rule_runs_with_buffers_and_resumes(rule, tmp_path):
    change = {
        "aggregate": rule,
        "attack": {"kind": "sign-flip", "clients": 0.17},
        "train": {"participation": 1.0},
    }
    whole = train("fedavg", tmp_path / "whole", **change)
    assert len(whole.metrics) == ROUNDS
    weights, _ = load_arrays(whole.folder / "model.safetensors")
    assert all(torch.isfinite(value).all() for value in weights.values())
    assert all((v >= 0).all() for name, v in weights.items() if name.endswith("running_var"))
    counters = [v for name, v in weights.items() if name.endswith("num_batches_tracked")]
    assert counters
    assert all(v.dtype == torch.int64 and v > 0 for v in counters)
    train_until("fedavg", tmp_path / "stopped", 2, **change)
    assert bits(flr.resume(tmp_path / "stopped")) == bits(whole)


def test_robust_rules_withstand_what_breaks_the_mean(tmp_path):
    base = {
        "rounds": 12,
        "method": "fedavg",
        "workers": 1,
        "partition": {"kind": "iid", "clients": 10},
        "attack": {"kind": "sign-flip", "clients": 0.2},
        "train": {"participation": 1.0, "epochs": 2},
    }
    last = {
        rule: flr.run({**base, "aggregate": rule}, out=tmp_path / rule).summary["accuracy"]["last"]
        for rule in ("mean", "median", "krum", "geometric-median")
    }
    assert last["mean"] < 0.6
    assert min(last["median"], last["krum"], last["geometric-median"]) > 0.8


def test_noise_on_inputs_reaches_training(tmp_path):
    clear = train("fedavg", tmp_path / "clear", noise={"kind": "none"})
    noisy = train("fedavg", tmp_path / "noisy", noise={"kind": "features", "floor": 1.0})
    assert bits(noisy) != bits(clear)
    assert noisy.summary["noise"]["realised"] == 0
    assert noisy.summary["noise"]["nominal"] == 1
    assert bits(flr.resume(noisy.folder)) == bits(noisy)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"aggregate": "krum"}, r"aggregate = \"krum\" outlives 0 .* among 3 or more"),
        (
            {"aggregate": {"name": "krum", "byzantine": 2}, "train": {"participation": 1.0}},
            r"2 faulty replies only among 7 or more \(2f \+ 3\); 6 are asked",
        ),
        (
            {"aggregate": {"name": "krum", "select": 6}, "train": {"participation": 1.0}},
            "selects 6 replies, more than the 5 that are sound",
        ),
        ({"aggregate": "trimmed-mean"}, "no reply at all of the 2 asked .* at least 5 clients"),
        ({"attack": {"kind": "gaussian", "clients": 0.05}}, "is no client at all of 6"),
        ({"attack": {"kind": "gausian"}}, 'Did you mean "gaussian"'),
        ({"attack": {"kind": "gaussian", "scale": 1}}, 'not an option of attack "gaussian"'),
        ({"aggregate": {"name": "krum", "byzantine": 0.5}}, "byzantine = 0.5"),
    ],
)
def test_what_the_config_shows_already(change, message):
    base = {"rounds": 3, "partition": {"kind": "iid", "clients": 6}}
    with pytest.raises(ConfigError, match=message):
        config.parse({**base, "train": {"participation": 0.34}, **change})


def test_a_method_with_a_rule_of_its_own_takes_no_other():
    own = [name for name in ("feddyn", "rofl") if name in registry.entries("method")]
    assert own
    for name in own:
        with pytest.raises(ConfigError, match="has an aggregation rule of its own"):
            config.parse({"rounds": 3, "method": name, "aggregate": "median"})


def test_attacks_separate_groups():
    plain = config.parse({"rounds": 3})
    attacked = config.parse({"rounds": 3, "attack": {"kind": "sign-flip"}})
    assert plain.group_key() != attacked.group_key()
    assert config.parse({"rounds": 3, "attack": "none"}).group_key() == plain.group_key()
