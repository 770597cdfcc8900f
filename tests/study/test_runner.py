"""Cells: trained once, shared, resumed, marked when a method has changed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np
import pytest

from flr.core.errors import ConfigError, DataError, RunError
from flr.paper.claims.orderings import agreement, orderings
from flr.paper.experiment import QUICK
from flr.paper.pages import experiment as page
from flr.study import queue, results
from flr.study.experiment import Coordinates, Experiment, merge
from flr.study.runner import Runner

DOCUMENT: dict[str, Any] = {
    "title": "A toy table",
    "shows": "accuracy-table",
    "score": "best",
    "config": {
        "rounds": 3,
        "data": {"name": "digits", "train": 120, "test": 60},
        "partition": {"kind": "iid", "clients": 4},
        "train": {"participation": 0.5, "epochs": 1, "model": {"name": "mlp", "hidden": 8}},
    },
    "settings": {
        "quiet": {"title": "no noise"},
        "loud": {"title": "noise", "noise": {"kind": "symmetric", "clients": 1.0}},
    },
    "rows": {
        "fedavg": {"title": "FedAvg", "method": "fedavg"},
        "flr": {"title": "FLR", "method": "flr", "only": ["loud"]},
    },
    "paper": {"fedavg": {"quiet": [50.0, 1.5]}},
    "claims": [{"says": "FLR wins", "row": "flr", "than": "fedavg", "settings": ["loud"]}],
}


def toy(**changes: Any) -> Experiment:
    return Experiment("toy", merge(DOCUMENT, changes), "laptop")


@pytest.fixture
def runner(tmp_path):
    return Runner(tmp_path, workers=1)


def test_every_place_is_trained_once_and_kept_small(runner):
    outcome = runner.reproduce(toy(), (1, 2))
    file = runner.folder / "cells" / "toy.jsonl"
    lines = file.read_text().splitlines()
    assert [json.loads(line)["hash"] for line in lines] == results.names(runner.folder)
    assert len(outcome.cells) == len(lines) == 6
    assert all(len(line) <= results.LARGEST for line in lines)
    assert [path.name for path in (runner.folder / "runs").iterdir()] == [".locks"]
    before = file.stat()
    again = runner.reproduce(toy(), (1, 2))
    assert file.stat() == before
    assert {p: c.content for p, c in again.cells.items()} == {
        p: c.content for p, c in outcome.cells.items()
    }


def test_a_second_table_shares_the_cells_of_the_first(runner):
    first = runner.reproduce(toy(), (1,))
    other = toy(settings={"loud": {"title": "another name"}}, rows={"flr": {"title": "Ours"}})
    trained: list[str] = []
    watching = Runner(
        runner.folder, workers=1, watch=lambda label, rounds: _note(trained, label, rounds)
    )
    second = watching.reproduce(other, (1,))
    assert trained == []
    assert [c.hash for c in second.cells.values()] == [c.hash for c in first.cells.values()]


def _note(trained, label, rounds):
    trained.append(label)
    return nullcontext()


class PlugPulledError(Exception):
    """Somebody pulled the plug."""


def test_a_stopped_reproduction_goes_on_without_repeating_a_cell_or_a_round(runner, tmp_path):
    rounds: list[tuple[str, int]] = []

    def watch(stop_at):
        class Watching:
            def __init__(self, label, _rounds):
                self.label = label

            def __enter__(self):
                def on_round(line):
                    rounds.append((self.label, line["round"]))
                    if len(rounds) == stop_at:
                        raise PlugPulledError

                return on_round

            def __exit__(self, *_):
                return None

        return Watching

    experiment = toy(config={"checkpoint_every": 1})
    with pytest.raises(PlugPulledError):
        Runner(tmp_path, workers=1, watch=watch(5)).reproduce(experiment, (1,))
    done = len(results.names(tmp_path))
    assert done == 1  # three rounds of the first cell, two of the second
    outcome = Runner(tmp_path, workers=1, watch=watch(0)).reproduce(experiment, (1,))
    assert len(outcome.cells) == 3
    finished = [place for place in rounds if place[0].startswith("1/3")]
    assert [number for _, number in finished] == [1, 2, 3]
    fresh = Runner(tmp_path / "fresh", workers=1).reproduce(experiment, (1,))
    for place, cell in fresh.cells.items():
        assert cell.content["curve"] == outcome.cells[place].content["curve"]


def test_a_cell_is_stale_when_its_method_has_changed(runner):
    outcome = runner.reproduce(toy(), (1,))
    place, cell = next(item for item in outcome.cells.items() if item[0].row == "flr")
    assert not outcome.stale
    assert cell.content["revisions"] == {"FLR": 1}
    path = runner.folder / "cells" / "toy.jsonl"
    whole = path.read_text()
    for damage in ('{"FLR":0}', "{}", "[1]", '{"FLR":null}', '{"FLR":"antigravity"}'):
        path.write_text(whole.replace('{"FLR":1}', damage))
        again = runner.gather(toy(), (1,))
        assert again.stale == {place}, damage
    path.write_text(whole.replace('{"FLR":1}', '{"FLR":2}'))  # of a later flr
    assert not runner.gather(toy(), (1,)).stale
    written = page.write(again, "flr reproduce toy")
    lines = (written.folder / "table.md").read_text().splitlines()
    assert [line.partition(" |")[0] for line in lines if r"\* |" in line] == ["| FLR"]


def test_a_part_may_have_fewer_seeds_and_its_number_says_so(runner):
    fewer = toy(settings={"loud": {"trials": 1}}, rows={"fedavg": {"trials": 2}})
    outcome = runner.reproduce(fewer, (5, 6, 7))
    seeds = {(p.row, p.setting): list(outcome.at(p.row, p.setting)) for p in outcome.cells}
    assert seeds == {("fedavg", "quiet"): [5, 6], ("fedavg", "loud"): [5], ("flr", "loud"): [5]}
    text = (page.write(outcome, "flr reproduce toy").folder / "table.md").read_text()
    assert [text.count(mark) for mark in (r" \[2\] |", r" \[1\] |")] == [1, 2]
    assert "of so many seeds" in text


def test_only_some_are_trained_and_all_that_are_there_are_shown(runner):
    assert len(runner.reproduce(toy(), (1,), ["quiet"]).cells) == 1
    outcome = runner.reproduce(toy(), (1,), ["flr", "loud"])
    assert {(p.row, p.setting) for p in outcome.cells} == {("fedavg", "quiet"), ("flr", "loud")}
    written = page.write(runner.gather(toy(), (1,)), "flr reproduce toy --no-train")
    assert [page.words(place) for place in written.compared] == ["not run"]
    assert len((written.folder / "runs.csv").read_text().splitlines()) == 3
    with pytest.raises(ConfigError, match="fedavg, flr, loud, quiet"):
        runner.reproduce(toy(), (1,), ["flrr"])


def test_every_pair_that_the_paper_puts_in_an_order_is_compared(runner):
    known = {"fedavg": {"quiet": [50.0, 1.5], "loud": [40.0, 1.0]}, "flr": {"loud": [60.5, 1.0]}}
    outcome = runner.reproduce(toy(paper=known), (1, 2))
    (pair,) = orderings(outcome)
    assert (pair.setting, pair.claim.row, pair.claim.than) == ("loud", "flr", "fedavg")
    assert pair.paper == 20.5
    late, best = (
        np.subtract(*(outcome.values(row, "loud", "accuracy", which) for row in ("flr", "fedavg")))
        for which in ("last10", "best")
    )
    assert list(pair.place.differences.values()) == pytest.approx(late)
    lines = (page.write(outcome, "").folder / "orderings.csv").read_text().splitlines()
    assert lines[1].startswith(f"loud,accuracy.best,flr,fedavg,20.50,{100 * late.mean():.2f},")
    assert lines[1].endswith(f",2,{100 * best.mean():.2f}")
    where, what, *counts = next(agreement(outcome))
    assert (where.partition(",")[0], what) == ("toy", "accuracy")
    assert counts == [1, int(late.mean() > 0), int(best.mean() > 0)]


def test_two_processes_share_the_work(runner):
    """The other one is at the first cell: this one leaves it, and comes back when it is free."""
    first = next(iter(runner.missing(toy(), (1,))))
    order: list[str] = []

    @contextmanager
    def watch(label: str, _rounds: int) -> Iterator[None]:
        order.append(label)
        if len(order) == 2:
            theirs.__exit__(None, None, None)
        yield

    theirs = runner.claimed(first, 0)
    assert theirs.__enter__()
    ours = Runner(runner.folder, workers=1, watch=watch)
    assert len(ours.reproduce(toy(), (1,)).cells) == 3
    assert [label.partition("/")[0] for label in order] == ["2", "3", "1"]


def test_nobody_goes_on_without_the_network_that_all_start_from(tmp_path):
    waited: dict[str, float] = {}

    class Patient(Runner):
        def claimed(self, name: str, patience: float) -> AbstractContextManager[bool]:
            waited.setdefault(name, patience)
            return super().claimed(name, patience)

    before = {"rounds": 1, "method": "fedavg", "partition": {"kind": "central"}}
    experiment = toy(pretrain=before, rows={"flr": {"trials": 0}})
    outcome = Patient(tmp_path, workers=1).reproduce(experiment, (1,))
    assert list(waited.values()) == [-1, 0, 0]
    assert all(cell.content["config"]["train"]["init"] for cell in outcome.cells.values())


def test_what_cannot_change_a_result_is_not_in_a_cells_name():
    experiment = toy()
    place = next(experiment.places((1,)))
    plain = results.hash_of(experiment.config(place))
    assert results.hash_of(experiment.config(place, {"workers": 7, "checkpoint_every": 3})) == plain
    assert results.hash_of(experiment.config(place, {"rounds": 4})) != plain
    assert results.hash_of(experiment.config(place, {"train": {"lr": 0.2}})) != plain


def test_every_method_of_a_stack_and_inside_another_has_a_revision():
    inner = ["mixup", {"name": "flr", "lam": 1.0}]
    for method, outer in ((inner, {}), ({"name": "fedcorr", "inner": inner}, {"FedCorr": 1})):
        experiment = toy(rows={"fedavg": {"method": method}}, config={"rounds": 24})
        config = experiment.config(Coordinates("fedavg", "quiet", 1))
        assert results.revisions(config.build_method()) == {"Mixup": 1, "FLR": 1, **outer}


def test_other_content_under_the_same_name_is_another_cell(tmp_path):
    experiment = toy()
    place = next(experiment.places((1,)))
    names = set()
    for folder, content in (("a", b"one"), ("b", b"two")):
        (tmp_path / folder).mkdir()
        init = tmp_path / folder / "weights.pth"
        init.write_bytes(content)
        names.add(results.hash_of(experiment.config(place, {"train": {"init": str(init)}})))
        data = {"name": "npz", "path": str(tmp_path / folder / "data.npz")}
        names.add(results.hash_of(experiment.config(place, {"data": data})))
    assert len(names) == 4
    human = {"kind": "human", "path": str(tmp_path / "a")}
    published = [{"data": {"name": "cifar10", "path": p}, "noise": human} for p in ("x", "y")]
    assert len({results.hash_of(experiment.config(place, each)) for each in published}) == 1


def test_what_was_changed_is_said_and_kept_apart(runner):
    changed = Runner(runner.folder, {"rounds": 2}, workers=1)
    written = [
        page.write(each.reproduce(toy(), (1,)), "flr reproduce toy") for each in (runner, changed)
    ]
    assert written[0].folder != written[1].folder
    assert "rounds = 2" in (written[1].folder / "table.md").read_text()
    assert "rounds = 2" in (written[1].folder / page.INDEX).read_text()
    assert "Changed" not in (written[0].folder / "table.md").read_text()


def test_no_noise_leaves_claims_on_memorization_open(runner):
    claim = {"says": "less", "row": "flr", "than": "fedavg", "settings": ["loud"]}
    claim["value"] = "memorization.server.noisy_memorized"
    experiment = toy(claims=[claim], settings={"loud": {"noise": {"kind": "none"}}})
    written = page.write(runner.reproduce(experiment, (1,)), "flr reproduce toy")
    assert [page.words(place) for place in written.compared] == ["not run"]


def test_the_command_line_wins_over_a_quick_run():
    experiment = Experiment("toy", DOCUMENT, "laptop", True, QUICK)
    place = next(experiment.places((1,)))
    assert experiment.config(place).rounds == QUICK["rounds"]
    assert experiment.config(place, {"rounds": 2}).rounds == 2


@pytest.mark.parametrize("damage", ["{", "[1, 2]", '{"hash": "HASH"}', '{"hash":"HASH","fo', "{}"])
def test_a_damaged_line_is_named_and_stays(runner, damage):
    experiment = toy()
    place = next(experiment.places((1,)))
    damage = damage.replace("HASH", results.hash_of(experiment.config(place)))
    path = runner.folder / "cells" / "toy.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text(damage)
    with pytest.raises(DataError, match=rf"line 1 of {path}.*Delete the line"):
        runner.reproduce(experiment, (1,))
    assert path.read_text() == damage


def test_a_torn_line_stays_when_others_are_added_and_theirs_can_be_read(runner):
    outcome = runner.reproduce(toy(), (1,))
    path = runner.folder / "cells" / "toy.jsonl"
    first, second, third = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + third[:1000])  # as a copy that broke off
    results.add(runner.folder, "toy", [second.strip()])
    assert path.read_bytes() == first + second + third[:1000] + b"\n"
    *whole, torn = sorted(cell.hash for cell in outcome.cells.values())
    assert all(results.read(runner.folder, name) for name in whole)
    with pytest.raises(DataError, match="line 3 of"):
        results.read(runner.folder, torn)


def test_processes_that_add_to_one_file_lose_nothing(tmp_path):
    lines = [b'{"hash":"%016x"}' % number for number in range(60)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda line: results.add(tmp_path, "toy", [line]), lines))
    assert (tmp_path / "cells" / "toy.jsonl").read_bytes().splitlines() == lines


def test_cells_of_earlier_versions_which_had_a_file_each_are_found(runner):
    outcome = runner.reproduce(toy(), (1,))
    path = runner.folder / "cells" / "toy.jsonl"
    for line in path.read_text().splitlines():
        (path.parent / f"{json.loads(line)['hash']}.json").write_text(line + "\n")
    path.unlink()
    assert runner.gather(toy(), (1,)).cells == outcome.cells


def test_a_model_that_is_needed_again_leaves_the_cell_as_it_is(runner):
    outcome = runner.reproduce(toy(), (1, 2))
    file = runner.folder / "cells" / "toy.jsonl"
    before = file.stat()
    runner.reproduce(toy(models="need"), (1, 2))
    assert file.stat() == before
    kept = {place.seed for place, c in outcome.cells.items() if runner.model(c.hash).exists()}
    assert kept == {1}


def test_models_are_kept_where_they_are_needed_and_then_found(runner):
    plain = runner.reproduce(toy(), (1,))
    hashes = [cell.hash for cell in plain.cells.values()]
    assert not any(runner.model(name).exists() for name in hashes)
    runner.reproduce(toy(models="keep"), (1,))  # cells from elsewhere are enough
    assert not any(runner.model(name).exists() for name in hashes)
    runner.reproduce(toy(models="need"), (1,))
    assert all(runner.model(name).exists() for name in hashes)
    again = Runner(runner.folder / "b", workers=1).reproduce(toy(models="keep"), (1,))
    assert all(again.runner.model(name).exists() for name in hashes)


def test_pretraining_happens_once_and_all_start_from_it(runner):
    experiment = toy(pretrain={"rounds": 2, "method": "fedavg", "partition": {"kind": "central"}})
    outcome = runner.reproduce(experiment, (1, 2))
    (model,) = (runner.folder / "models").iterdir()
    inits = {cell.content["config"]["train"]["init"] for cell in outcome.cells.values()}
    assert inits == {model.name}
    assert len(results.names(runner.folder)) == 7
    model.unlink()  # cells that came without it are enough
    runner.reproduce(experiment, (1, 2))
    assert not model.exists()


def test_the_table_has_our_numbers_with_the_papers_beside_them(runner):
    outcome = runner.reproduce(toy(), (1, 2))
    written = page.write(outcome, "flr reproduce toy")
    markdown = (written.folder / "table.md").read_text()
    accuracies = outcome.late("fedavg", "quiet")
    assert f"{100 * sum(accuracies) / 2:.2f} ± " in markdown
    assert "50.00 ± 1.50" in markdown
    latex = (written.folder / "table.tex").read_text()
    assert r"$50.00 \pm 1.50$" in latex
    assert latex.count(r"\\") == 3
    lines = (written.folder / "runs.csv").read_text().splitlines()
    assert len(lines) == 7
    html = (written.folder / page.INDEX).read_text()
    assert "FLR wins" in html
    assert "flr reproduce toy" in html


def test_a_cell_gives_back_the_curve_it_was_made_from(runner):
    outcome = runner.reproduce(toy(), (1,))
    cell = outcome.cells[next(p for p in outcome.cells if p.row == "flr")]
    assert [line["round"] for line in cell.curve] == [1, 2, 3]
    last = cell.curve[-1]
    assert last["accuracy"] == cell.summary["accuracy"]["last"]
    assert last["memorization"]["client"] == cell.summary["memorization"]["client"]
    json.dumps(cell.curve)


@pytest.mark.parametrize("lanes", [1, 2])
def test_a_queue_trains_all_in_lanes_and_what_is_shared_once(runner, lanes):
    other = Experiment("other", merge(DOCUMENT, {"title": "Another"}), "laptop")
    queue.train_in_lanes(runner, [(toy(), (1,)), (other, (1,)), (toy(), (1, 2))], (), lanes)
    assert [len(runner.gather(each, (1, 2)).cells) for each in (toy(), other)] == [6, 6]
    files = list((runner.folder / "cells").iterdir())
    assert sum(len(path.read_text().splitlines()) for path in files) == 6


def test_a_run_that_fails_stops_no_other_of_a_queue(runner):
    broken = {"flr": {"title": "FLR", "method": "flr", "train": {"lr": 1e30, "momentum": 0.0}}}
    failed = queue.train(runner, [(toy(rows=broken), (1,)), (toy(), (2,))])
    with pytest.raises(RunError, match=r"1 did not: toy, .*FLR, noise"):
        queue.require_all(failed)
    assert len(results.names(runner.folder)) == 5
