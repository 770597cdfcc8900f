"""FedCorr as a whole: stages, budget, what it does to labels, what it goes around."""

from __future__ import annotations

import pytest
import torch
from toys import bits, settings, train, train_until

import flr
from flr import config
from flr.aggregate.means import mean
from flr.core import arrays
from flr.core.contract import MODEL, Reply, Server
from flr.core.errors import ConfigError
from flr.engine import checkpoint
from flr.methods.fedcorr import FedCorr, stage_ends
from flr.scenario.truth import Truth
from flr.simulation import api

NOISY = {
    "seed": 3,
    "rounds": 16,
    "data": {"name": "digits"},
    "partition": {"kind": "iid", "clients": 10},
    "noise": {"kind": "symmetric", "clients": 0.6, "floor": 0.5},
    "train": {"participation": 0.5, "epochs": 3},
    "checkpoint_every": 1,
}


@pytest.fixture(autouse=True)
def _no_pictures(monkeypatch):
    monkeypatch.setattr("flr.report.plots.curves", lambda *_: None)
    monkeypatch.setattr("flr.report.html.run_page", lambda *_: None)


class Federation:
    """A server whose clients answer at once, with LID and level as given."""

    def __init__(self, method: FedCorr, lids: list[float], rounds: int, per_round: int) -> None:
        weights = {"model.0.w": torch.zeros(1)}
        sizes = (10,) * len(lids)
        self.s = Server(weights, {}, rounds, len(lids), per_round, 1, mean, sizes)
        self.method, self.lids, self.lost = method, lids, set()
        self.asked: list[tuple[str, int, tuple[int, ...], int]] = []
        method.start(self.s)

    def run(self) -> None:
        while (task := self.method.plan(self.s)) is not None:
            stage = int(task.extra[task.clients[0]]["fedcorr.stage"])
            self.asked.append((task.name, stage, task.clients, self.s.round))
            present = [k for k in task.clients if k not in self.lost]
            self.method.reduce(self.s, task, [self.reply(k, task.name, stage) for k in present])
            self.s.step += 1

    def reply(self, client: int, name: str, stage: int) -> Reply:
        sent = {"model.0.w": torch.tensor([float(client)])} if name == "fit" else {}
        if stage == 1 and name == "fit":
            level = 0.5 if self.lids[client] > 2 else 0.02
            sent["fedcorr.lid"] = torch.tensor(self.lids[client], dtype=torch.float64)
            sent["fedcorr.level"] = torch.tensor(level, dtype=torch.float64)
        return Reply(client, 10, sent)


LIDS = [1.0, 1.1, 5.0, 0.9, 5.2, 1.05]  # clients 2 and 4 are noisy


def test_three_stages_fill_the_budget_exactly():
    f = Federation(FedCorr(iterations=2), LIDS, rounds=10, per_round=3)
    f.run()
    fits = [(stage, clients, at) for name, stage, clients, at in f.asked if name == "fit"]
    first = [clients for stage, clients, _ in fits if stage == 1]
    assert all(len(clients) == 1 for clients in first)
    sweeps = [sorted(k for (k,) in first[start : start + 6]) for start in (0, 6)]
    assert sweeps == [list(range(6))] * 2
    assert first[:6] != first[6:], "each sweep has an order of its own"
    assert [at for stage, _, at in fits if stage == 1] == sorted([0, 1, 2, 3] * 3)
    assert [at for stage, _, at in fits if stage == 2] == [4, 5, 6]
    assert [at for stage, _, at in fits if stage == 3] == [7, 8, 9]
    assert f.s.round == 10


def test_noisy_clients_correct_after_each_sweep_and_after_stage_2():
    f = Federation(FedCorr(iterations=2), LIDS, rounds=10, per_round=3)
    f.run()
    corrections = [(stage, clients, at) for name, stage, clients, at in f.asked if name != "fit"]
    assert corrections == [(1, (2, 4), 2), (1, (2, 4), 4), (2, (2, 4), 7)]
    assert f.s.state["fedcorr.level"].tolist() == [0, 0, 0.5, 0, 0.5, 0]


def test_stage_2_asks_clean_clients_only():
    f = Federation(FedCorr(iterations=2), LIDS, rounds=12, per_round=3)
    f.run()
    asked = [set(clients) for _, stage, clients, _ in f.asked if stage == 2]
    assert set().union(*asked[:-1]) <= {0, 1, 3, 5}


def test_stage_1_passes_the_model_on_from_client_to_client():
    f = Federation(FedCorr(iterations=1), LIDS, rounds=4, per_round=3)
    task = f.method.plan(f.s)
    f.method.reduce(f.s, task, [f.reply(task.clients[0], "fit", 1)])
    assert f.s.arrays["model.0.w"].item() == task.clients[0]
    assert f.s.round == 0


def test_the_level_reaches_a_noisy_client_in_the_next_sweep_only():
    f = Federation(FedCorr(iterations=2), LIDS, rounds=10, per_round=3)
    levels = {}
    while (task := f.method.plan(f.s)) is not None:
        for k in task.clients:
            order = task.extra[k]
            if task.name == "fit":
                key = (int(order["fedcorr.stage"]), f.s.round >= 2)
                levels.setdefault(key, {})[k] = float(order["fedcorr.mu"])
        stage = int(task.extra[task.clients[0]]["fedcorr.stage"])
        f.method.reduce(f.s, task, [f.reply(k, task.name, stage) for k in task.clients])
        f.s.step += 1
    assert set(levels[1, False].values()) == {0.0}
    assert levels[1, True] == {0: 0, 1: 0, 2: 0.5, 3: 0, 4: 0.5, 5: 0}
    assert set(levels[2, True].values()) | set(levels[3, True].values()) == {0.0}


def test_lost_clients_do_not_stop_stage_1_nor_count_as_clean():
    f = Federation(FedCorr(iterations=1), LIDS, rounds=8, per_round=3)
    f.lost = {0}
    f.run()
    assert f.s.round == 8
    assert not any(0 in clients for _, stage, clients, _ in f.asked if stage == 2)
    assert f.s.state["fedcorr.noisy"].nonzero().flatten().tolist() == [2, 4]


def test_with_nobody_below_the_clean_level_the_lowest_are_asked():
    f = Federation(FedCorr(iterations=1), LIDS, rounds=8, per_round=3)
    f.s.state["fedcorr.heard"] = torch.ones(6, dtype=torch.int64)
    levels = [0.5, 0.2, 0.9, 0.3, 0.4, 0.6]
    f.s.state["fedcorr.level"] = torch.tensor(levels, dtype=torch.float64)
    assert f.method.sample_clean(f.s) == (1, 3, 4)


def test_equal_scores_are_all_clean():
    f = Federation(FedCorr(iterations=1), [1.0] * 4, rounds=6, per_round=2)
    f.run()
    assert not f.s.state["fedcorr.noisy"].any()
    assert [name for name, *_ in f.asked if name == "correct"] == []


@pytest.fixture(scope="module")
def corrected(tmp_path_factory):
    """A run on digits whose labels are wrong at six of ten clients."""
    method = {"name": "fedcorr", "iterations": 3}
    return flr.run({**NOISY, "method": method}, out=tmp_path_factory.mktemp("run") / "run")


def final_state(run, site: int) -> arrays.Arrays:
    """What a site remembers in the end."""
    folder = run.folder / "checkpoint"
    version = checkpoint.load_all(folder)[0].versions[site]
    return arrays.load(folder / "state" / str(site) / f"{version}.safetensors")[0]


def wrong_labels(run) -> tuple[float, float]:
    """The share of wrong labels as given, and as the sites have them in the end."""
    dataset = api.load_data(run.config)
    scenario = api.load_scenario(run.config, dataset)
    true = Truth.of(scenario, dataset).true
    now = [final_state(run, site)["fedcorr.labels"] for site in range(len(true))]
    rates = [
        float((torch.cat(list(labels)) != torch.cat(list(true))).double().mean())
        for labels in (scenario.given, now)
    ]
    return rates[0], rates[1]


def test_relabelling_mends_most_labels(corrected):
    given, now = wrong_labels(corrected)
    assert given > 0.3
    assert now < given / 3


def test_every_equivalent_round_is_measured(corrected):
    assert [line["round"] for line in corrected.metrics] == list(range(1, 17))
    assert corrected.metrics[-1]["accuracy"] > 0.8


@pytest.mark.parametrize("stop", [2, 9, 12])
def test_resume_inside_any_stage_gives_the_same_bits(corrected, stop, tmp_path):
    """Stage 1 ends with round 6, stage 2 with round 11."""
    assert stage_ends(16, 10, 5, 3, 0.5) == (6, 11)

    class StopError(Exception):
        pass

    def stop_there(metrics):
        if metrics["round"] == stop:
            raise StopError

    method = {"name": "fedcorr", "iterations": 3}
    with pytest.raises(StopError):
        flr.run({**NOISY, "method": method}, out=tmp_path / "run", on_round=stop_there)
    assert bits(flr.resume(tmp_path / "run")) == bits(corrected)


def test_quirks_change_the_statistics(tmp_path):
    plain = train("fedcorr", tmp_path / "plain")
    quirky = train({"name": "fedcorr", "iterations": 1, "repo_quirks": True}, tmp_path / "quirky")
    one, two = (final_state(run, 0)["fedcorr.losses"] for run in (plain, quirky))
    assert one.max() > 2.5
    assert two.max() - two.min() <= 1, "a second softmax leaves a band of width 1"


@pytest.mark.parametrize(
    "inner",
    [["flr", "fedprox"], "elr", "coteaching", "dividemix", "feddyn", "mixup", "gce"],
    ids=str,
)
def test_other_methods_inside(inner, tmp_path):
    method = {"name": "fedcorr", "iterations": 1, "inner": inner}
    run = train(method, tmp_path / "run")
    weights, _ = arrays.load(run.folder / "model.safetensors")
    assert all(value.isfinite().all() for value in weights.values())
    train_until(method, tmp_path / "stopped", 3)
    assert bits(flr.resume(tmp_path / "stopped")) == bits(run)


def test_flr_plus_is_flr_inside(tmp_path):
    written = {"name": "fedcorr", "iterations": 1, "inner": {"name": "flr", "lam": 3.0}}
    runs = [train("flr+", tmp_path / "a"), train(written, tmp_path / "b")]
    one, two = (arrays.load(run.folder / "model.safetensors")[0] for run in runs)
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert "flr.{net}.s" in [d.name for d in FedCorr(inner="flr").traits.keeps]


def test_too_few_rounds_are_refused_with_numbers():
    with pytest.raises(
        ConfigError, match=r"rounds = 4 is too few: 5 iterations .* 10 rounds .* 12"
    ):
        config.parse({**settings("fedavg"), "method": "fedcorr"})


@pytest.mark.parametrize(
    ("inner", "words"),
    [
        ("fedcorr", "inner cannot be FedCorr"),
        ("flrr", "inner is not known"),
        ({"name": "flr", "lam": -1.0}, "inner.lam should be"),
        (["flr", "elr", "flr"], "twice"),
        ([], "at least one method"),
    ],
    ids=str,
)
def test_what_cannot_be_inside_is_refused(inner, words):
    method = {"name": "fedcorr", "iterations": 1, "inner": inner}
    with pytest.raises(ConfigError, match=words):
        config.parse(settings(method))


def test_the_resolved_config_loads_again(tmp_path):
    for method in ("flr+", {"name": "fedcorr", "iterations": 1, "inner": ["flr", "fedprox"]}):
        parsed = config.parse(settings(method))
        path = tmp_path / "config.toml"
        path.write_text(parsed.to_toml())
        assert config.load(path) == parsed


def test_weights_are_the_only_thing_sent_after_stage_1(corrected):
    sizes = {line["round"]: set() for line in corrected.clients}
    for line in corrected.clients:
        sizes[line["round"]].add(line["bytes_up"])
    weights, _ = arrays.load(corrected.folder / "model.safetensors")
    assert all(name.startswith(MODEL) for name in weights)
    assert sizes[16] == {arrays.nbytes(weights)}


def test_a_rule_that_needs_several_replies_is_refused():
    with pytest.raises(ConfigError, match="the first stage has one in each step"):
        config.parse(
            {"rounds": 60, "method": "fedcorr", "aggregate": "krum", "train": {"participation": 1}}
        )
