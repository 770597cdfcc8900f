"""A model chosen by noisy labels: held out of training, counted at the sites, the same bits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from toys import bits, settings, train, train_until

import flr
from flr.audit.run_clients import open_run
from flr.client.worker import ClientResult
from flr.core import arrays, registry
from flr.core.contract import Reply, Server
from flr.core.errors import ConfigError
from flr.core.traits import COUNTS
from flr.data.dataset import Ragged
from flr.engine.selection import Selection
from flr.models import model_file
from flr.scenario import scenario as scenarios
from flr.scenario.validation import held_out

SHARE = 0.2
CHOOSES: dict[str, Any] = {"validation": SHARE, "select": "validation"}
METHODS = [
    name
    for name, entry in registry.entries("method").items()
    if entry.factory.__module__.startswith("flr.")
]


def counted(*counts: tuple[int, int]) -> list[ClientResult]:
    return [
        ClientResult(Reply(k, n, {COUNTS: torch.tensor([right, n])}), False, 0.0, None)
        for k, (right, n) in enumerate(counts)
    ]


@pytest.fixture
def server() -> Server:
    weights = {"model.0.w": torch.zeros(2)}
    return Server(weights, {}, 9, 2, 1, 0, lambda *_: {}, examples=(40, 40), step=1, round=1)


def look(server: Server, selection: Selection, *counts: tuple[int, int]) -> Any:
    """The next round, whose weights are its number."""
    server.arrays = {"model.0.w": torch.full((2,), float(server.round))}
    task = selection.task(server, server.arrays)
    score = selection.look(server, task, counted(*counts), {})
    server.round, server.step = server.round + 1, server.step + 1
    return score


def test_the_best_share_over_all_sites_is_kept(server: Server) -> None:
    selection = Selection()
    scores = [
        look(server, selection, (1, 10), (2, 10)),
        look(server, selection, (9, 30), (4, 10)),  # 13 of 40 is more than 3 of 20
        look(server, selection, (13, 40)),  # as good, and later
        look(server, selection, (0, 10), (3, 10)),
    ]
    assert [(s.right, s.samples, s.best) for s in scores] == [
        (3, 20, True), (13, 40, True), (13, 40, False), (3, 20, False),
    ]  # fmt: skip
    assert selection.model(server, server.arrays)["model.0.w"].tolist() == [2.0, 2.0]


def test_without_keeping_rounds_are_scored_and_the_last_model_stays(server: Server) -> None:
    selection = Selection(keeps=False)
    assert look(server, selection, (1, 10)).best
    assert selection.model(server, server.arrays) == server.arrays


def test_patience_counts_rounds_since_the_best(server: Server) -> None:
    selection = Selection(patience=2)
    assert not selection.ended(server)
    for counts, ended in (((5, 10), False), ((5, 10), False), ((4, 10), True)):
        look(server, selection, counts)
        server.round -= 1  # as it is when the round is over
        assert selection.ended(server) == ended
        server.round += 1


def test_counts_that_cannot_be_are_left_out(server: Server, caplog) -> None:
    score = look(server, Selection(), (11, 10), (3, 10))
    assert (score.right, score.samples) == (3, 10)
    assert "11 of 10 is no count" in caplog.text
    assert look(server, Selection(), (400, 400), (41, 41)) is None, "more than they train on"
    assert "has no score" in caplog.text


def test_an_undeclared_or_negative_count_is_refused(server: Server) -> None:
    task = Selection().task(server, server.arrays)
    for value in (torch.tensor([-1, 10]), torch.tensor([1.0, 10.0]), torch.tensor([1, 2, 3])):
        (result,) = counted((1, 10))
        odd = replace(result, reply=replace(result.reply, arrays={COUNTS: value}))
        assert Selection().look(server, task, [odd], {}) is None


@pytest.mark.parametrize("name", METHODS)
def test_every_method_can_be_chosen_from(name: str, tmp_path) -> None:
    run = train(name, tmp_path / "run", eval=CHOOSES)
    chosen = run.summary["selection"]
    assert chosen["kept"] == "validation"
    assert chosen["samples"] == 6 * 4
    assert run.model().classes == tuple("0123456789")


def test_the_model_file_holds_the_model_of_the_chosen_round(tmp_path) -> None:
    """The same run that ends there has the same weights."""
    run = train("fedavg", tmp_path / "run", rounds=6, eval=CHOOSES)
    number = run.summary["selection"]["round"]
    scores = [line["validation"]["right"] for line in run.metrics]
    assert number == scores.index(max(scores)) + 1
    short = train("fedavg", tmp_path / "short", rounds=number, eval={"validation": SHARE})
    assert short.summary["selection"]["kept"] == "last"
    kept, last = (arrays.load(r.folder / model_file.NAME)[0] for r in (run, short))
    assert kept.keys() == last.keys()
    assert all(kept[name].equal(last[name]) for name in kept)
    plain = train("fedavg", tmp_path / "plain", rounds=number)
    assert bits(plain) != bits(short), "other runs train on what these hold out"


def test_no_held_out_label_is_trained_on(tmp_path) -> None:
    """Other labels there give the same weights, and another score."""
    run = train("flr", tmp_path / "run", eval={"validation": SHARE})
    scenario = scenarios.load(run.folder / "scenario.safetensors")
    mask = held_out(scenario.sizes.tolist(), SHARE, scenario.seed)
    turned = torch.where(mask, 9 - scenario.labels, scenario.labels)
    replace(scenario, given=Ragged(turned, scenario.sizes)).save(tmp_path / "turned.safetensors")
    config = settings("flr", eval={"validation": SHARE})
    del config["partition"], config["noise"]
    config["scenario"] = {"path": str(tmp_path / "turned.safetensors")}
    other = flr.run(config, out=tmp_path / "other")
    assert bits(other) == bits(run)
    assert [line["validation"] for line in other.metrics] != [
        line["validation"] for line in run.metrics
    ]


@pytest.fixture(scope="module")
def patient(tmp_path_factory) -> flr.Run:
    """A run that ends by itself."""
    out = tmp_path_factory.mktemp("patient") / "run"
    return train("flr", out, rounds=30, eval={**CHOOSES, "patience": 2})


def test_a_run_ends_when_its_patience_does(patient) -> None:
    chosen = patient.summary["selection"]
    assert patient.summary["rounds"] == len(patient.metrics) == chosen["round"] + 2 < 30
    assert chosen["planned"] == 30
    page = (patient.folder / "report.html").read_text()
    assert f"The run ended after round {len(patient.metrics)} of 30" in page


def test_workers_and_a_resume_choose_the_same(patient, tmp_path) -> None:
    asked = {**CHOOSES, "patience": 2}
    two = train("flr", tmp_path / "two", rounds=30, workers=2, eval=asked)
    best = patient.summary["selection"]["round"]
    for name, until, every in (("at", max(best, 1), 1), ("after", best + 1, 100)):
        out = tmp_path / name
        train_until("flr", out, until, rounds=30, checkpoint_every=every, eval=asked)
        again = flr.resume(out)
        assert bits(again) == bits(patient), name
        assert again.summary["selection"] == patient.summary["selection"]
    assert bits(two) == bits(patient)
    assert bits(flr.resume(two.folder)) == bits(patient), "there is nothing more to do"


def test_clients_audit_what_they_trained_on(patient) -> None:
    scenario = scenarios.load(patient.folder / "scenario.safetensors")
    mask = held_out(scenario.sizes.tolist(), SHARE, scenario.seed)
    run = open_run(patient.folder)
    assert torch.equal(torch.cat(list(run.given)), scenario.labels[~mask])
    assert "global" in run.evidence(0).views, "what it has kept of each of them fits"


def test_a_share_that_holds_nothing_out_is_refused(tmp_path) -> None:
    with pytest.raises(ConfigError, match=r"validation = 0.001 should .* the largest site has 21"):
        train("fedavg", tmp_path / "run", eval={"validation": 0.001})
