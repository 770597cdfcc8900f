"""Cells: trained once, shared, resumed, marked when a method has changed."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np
import pytest

from flr.errors import ConfigError, DataError
from flr.reproduce import cells, page, runner
from flr.reproduce.experiment import QUICK, Experiment, merge
from flr.reproduce.orderings import orderings

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
    return Experiment("toy", "laptop", False, merge(DOCUMENT, changes))


@pytest.fixture
def workshop(tmp_path):
    return runner.Workshop(tmp_path, workers=1)


def test_every_place_is_trained_once_and_kept_small(workshop):
    outcome = runner.perform(toy(), workshop, (1, 2))
    files = sorted((workshop.folder / "cells").glob("*.json"))
    assert len(outcome.cells) == len(files) == 6
    assert all(file.stat().st_size <= cells.LARGEST for file in files)
    assert [path.name for path in (workshop.folder / "runs").iterdir()] == [".locks"]
    before = {file: file.stat().st_mtime_ns for file in files}
    again = runner.perform(toy(), workshop, (1, 2))
    assert {file: file.stat().st_mtime_ns for file in files} == before
    assert {p: c.content for p, c in again.cells.items()} == {
        p: c.content for p, c in outcome.cells.items()
    }


def test_a_second_table_shares_the_cells_of_the_first(workshop):
    first = runner.perform(toy(), workshop, (1,))
    other = toy(settings={"loud": {"title": "another name"}}, rows={"flr": {"title": "Ours"}})
    trained: list[str] = []
    watching = runner.Workshop(
        workshop.folder, workers=1, watch=lambda label, rounds: _note(trained, label, rounds)
    )
    second = runner.perform(other, watching, (1,))
    assert trained == []
    assert [c.hash for c in second.cells.values()] == [c.hash for c in first.cells.values()]


def _note(trained, label, rounds):
    trained.append(label)
    return runner.unwatched(label, rounds)


class PlugPulledError(Exception):
    """Somebody pulled the plug."""


def test_a_stopped_reproduction_goes_on_without_repeating_a_cell_or_a_round(workshop, tmp_path):
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
        runner.perform(experiment, runner.Workshop(tmp_path, workers=1, watch=watch(5)), (1,))
    done = len(list((tmp_path / "cells").glob("*.json")))
    assert done == 1  # three rounds of the first cell, two of the second
    outcome = runner.perform(experiment, runner.Workshop(tmp_path, workers=1, watch=watch(0)), (1,))
    assert len(outcome.cells) == 3
    finished = [place for place in rounds if place[0].startswith("1/3")]
    assert [number for _, number in finished] == [1, 2, 3]
    fresh = runner.perform(experiment, runner.Workshop(tmp_path / "fresh", workers=1), (1,))
    for place, cell in fresh.cells.items():
        assert cell.content["curve"] == outcome.cells[place].content["curve"]


def test_a_cell_is_stale_when_its_method_has_changed(workshop):
    outcome = runner.perform(toy(), workshop, (1,))
    place, cell = next(item for item in outcome.cells.items() if item[0].row == "flr")
    assert not outcome.stale
    then, path = cell.content["sources"], cells.path_of(workshop.folder, cell.hash)
    assert set(then) == {"flr.client.memory", "flr.client.tables", "flr.methods.flr"}
    whole = path.read_text()
    for module in then:
        path.write_text(whole.replace(then[module], "0" * 16))
        again = runner.perform(toy(), workshop, (1,))
        assert again.stale == {place}, module
    written = page.write(again, "flr reproduce toy")
    lines = (written.folder / "table.md").read_text().splitlines()
    assert [line.partition(" |")[0] for line in lines if r"\* |" in line] == ["| FLR"]


def test_a_part_may_have_fewer_seeds_and_its_number_says_so(workshop):
    fewer = toy(settings={"loud": {"trials": 1}}, rows={"fedavg": {"trials": 2}})
    outcome = runner.perform(fewer, workshop, (5, 6, 7))
    seeds = {(p.row, p.setting): list(outcome.at(p.row, p.setting)) for p in outcome.cells}
    assert seeds == {("fedavg", "quiet"): [5, 6], ("fedavg", "loud"): [5], ("flr", "loud"): [5]}
    text = (page.write(outcome, "flr reproduce toy").folder / "table.md").read_text()
    assert [text.count(mark) for mark in (r" \[2\] |", r" \[1\] |")] == [1, 2]
    assert "of so many seeds" in text


def test_only_some_are_trained_and_all_that_are_there_are_shown(workshop):
    assert len(runner.perform(toy(), workshop, (1,), ["quiet"]).cells) == 1
    outcome = runner.perform(toy(), workshop, (1,), ["flr", "loud"])
    assert {(p.row, p.setting) for p in outcome.cells} == {("fedavg", "quiet"), ("flr", "loud")}
    written = page.write(runner.gather(toy(), workshop, (1,)), "flr reproduce toy --no-train")
    assert [judged.verdict for judged in written.judged] == ["not run"]
    assert len((written.folder / "runs.csv").read_text().splitlines()) == 3
    with pytest.raises(ConfigError, match="fedavg, flr, loud, quiet"):
        runner.perform(toy(), workshop, (1,), ["flrr"])


def test_every_pair_that_the_paper_puts_in_an_order_is_judged(workshop):
    known = {"fedavg": {"quiet": [50.0, 1.5], "loud": [40.0, 1.0]}, "flr": {"loud": [60.5, 1.0]}}
    outcome = runner.perform(toy(paper=known), workshop, (1, 2))
    (pair,) = orderings(outcome)
    assert (pair.setting, pair.more, pair.less, pair.paper) == ("loud", "flr", "fedavg", 20.5)
    best = [
        [cell.summary["accuracy"]["best"] for cell in outcome.at(row, "loud").values()]
        for row in ("flr", "fedavg")
    ]
    assert pair.ours == pytest.approx(100 * np.subtract(*best).mean())
    assert pair.n == 2
    lines = (page.write(outcome, "").folder / "orderings.csv").read_text().splitlines()
    assert lines[1].startswith(f"loud,accuracy.best,flr,fedavg,20.50,{pair.ours:.2f},")


def test_two_processes_share_the_work(workshop):
    """The other one is at the first cell: this one leaves it, and comes back when it is free."""
    first = next(iter(runner.missing(toy(), workshop, (1,))))
    order: list[str] = []

    @contextmanager
    def watch(label: str, _rounds: int) -> Iterator[None]:
        order.append(label)
        if len(order) == 2:
            theirs.__exit__(None, None, None)
        yield

    theirs = workshop.claimed(first, 0)
    assert theirs.__enter__()
    ours = runner.Workshop(workshop.folder, workers=1, watch=watch)
    assert len(runner.perform(toy(), ours, (1,)).cells) == 3
    assert [label.partition("/")[0] for label in order] == ["2", "3", "1"]


def test_nobody_goes_on_without_the_network_that_all_start_from(tmp_path):
    waited: dict[str, float] = {}

    class Patient(runner.Workshop):
        def claimed(self, name: str, patience: float) -> AbstractContextManager[bool]:
            waited.setdefault(name, patience)
            return super().claimed(name, patience)

    before = {"rounds": 1, "method": "fedavg", "partition": {"kind": "central"}}
    experiment = toy(pretrain=before, rows={"flr": {"trials": 0}})
    outcome = runner.perform(experiment, Patient(tmp_path, workers=1), (1,))
    assert list(waited.values()) == [-1, 0, 0]
    assert all(cell.content["config"]["train"]["init"] for cell in outcome.cells.values())


def test_what_cannot_change_a_result_is_not_in_a_cells_name():
    experiment = toy()
    place = next(experiment.places((1,)))
    plain = cells.hash_of(experiment.config(place))
    assert cells.hash_of(experiment.config(place, {"workers": 7, "checkpoint_every": 3})) == plain
    assert cells.hash_of(experiment.config(place, {"rounds": 4})) != plain
    assert cells.hash_of(experiment.config(place, {"train": {"lr": 0.2}})) != plain


def test_a_cell_from_elsewhere_names_no_code_that_is_then_run(workshop):
    outcome = runner.perform(toy(), workshop, (1,))
    place, cell = next(iter(outcome.cells.items()))
    path = cells.path_of(workshop.folder, cell.hash)
    path.write_text(path.read_text().replace("flr.methods.fedavg", "antigravity"))
    assert runner.perform(toy(), workshop, (1,)).stale == {place}
    assert "antigravity" not in sys.modules


def test_other_content_under_the_same_name_is_another_cell(tmp_path):
    experiment = toy()
    place = next(experiment.places((1,)))
    names = set()
    for folder, content in (("a", b"one"), ("b", b"two")):
        (tmp_path / folder).mkdir()
        init = tmp_path / folder / "weights.pth"
        init.write_bytes(content)
        names.add(cells.hash_of(experiment.config(place, {"train": {"init": str(init)}})))
        data = {"name": "npz", "path": str(tmp_path / folder / "data.npz")}
        names.add(cells.hash_of(experiment.config(place, {"data": data})))
    assert len(names) == 4
    human = {"kind": "human", "path": str(tmp_path / "a")}
    published = [{"data": {"name": "cifar10", "path": p}, "noise": human} for p in ("x", "y")]
    assert len({cells.hash_of(experiment.config(place, each)) for each in published}) == 1


def test_what_was_changed_is_said_and_kept_apart(workshop):
    changed = runner.Workshop(workshop.folder, {"rounds": 2}, workers=1)
    written = [
        page.write(runner.perform(toy(), each, (1,)), "flr reproduce toy")
        for each in (workshop, changed)
    ]
    assert written[0].folder != written[1].folder
    assert "rounds = 2" in (written[1].folder / "table.md").read_text()
    assert "rounds = 2" in (written[1].folder / page.INDEX).read_text()
    assert "Changed" not in (written[0].folder / "table.md").read_text()


def test_no_noise_leaves_claims_on_memorization_open(workshop):
    claim = {"says": "less", "row": "flr", "than": "fedavg", "settings": ["loud"]}
    claim["value"] = "memorization.server.noisy_memorized"
    experiment = toy(claims=[claim], settings={"loud": {"noise": {"kind": "none"}}})
    written = page.write(runner.perform(experiment, workshop, (1,)), "flr reproduce toy")
    assert [judged.verdict for judged in written.judged] == ["not run"]


def test_the_command_line_wins_over_a_quick_run():
    experiment = Experiment("toy", "laptop", True, DOCUMENT)
    place = next(experiment.places((1,)))
    assert experiment.config(place).rounds == QUICK["rounds"]
    assert experiment.config(place, {"rounds": 2}).rounds == 2


@pytest.mark.parametrize("damage", ["", "{", "[1, 2]", '{"format": 7, "hash": "x"}', "{}"])
def test_a_damaged_cell_is_refused_and_not_overwritten(workshop, damage):
    experiment = toy()
    place = next(experiment.places((1,)))
    path = cells.path_of(workshop.folder, cells.hash_of(experiment.config(place)))
    path.parent.mkdir(parents=True)
    path.write_text(damage)
    with pytest.raises(DataError, match="Delete the file"):
        runner.perform(experiment, workshop, (1,))
    assert path.read_text() == damage


def test_a_model_that_is_needed_again_leaves_the_cell_as_it_is(workshop):
    outcome = runner.perform(toy(), workshop, (1, 2))
    files = {cells.path_of(workshop.folder, cell.hash) for cell in outcome.cells.values()}
    before = {file: file.stat().st_mtime_ns for file in files}
    runner.perform(toy(models="need"), workshop, (1, 2))
    assert {file: file.stat().st_mtime_ns for file in files} == before
    kept = {place.seed for place, c in outcome.cells.items() if workshop.model(c.hash).exists()}
    assert kept == {1}


def test_models_are_kept_where_they_are_needed_and_then_found(workshop):
    plain = runner.perform(toy(), workshop, (1,))
    hashes = [cell.hash for cell in plain.cells.values()]
    assert not any(workshop.model(name).exists() for name in hashes)
    runner.perform(toy(models="keep"), workshop, (1,))  # cells from elsewhere are enough
    assert not any(workshop.model(name).exists() for name in hashes)
    runner.perform(toy(models="need"), workshop, (1,))
    assert all(workshop.model(name).exists() for name in hashes)
    again = runner.perform(
        toy(models="keep"), runner.Workshop(workshop.folder / "b", workers=1), (1,)
    )
    assert all(again.workshop.model(name).exists() for name in hashes)


def test_pretraining_happens_once_and_all_start_from_it(workshop):
    experiment = toy(pretrain={"rounds": 2, "method": "fedavg", "partition": {"kind": "central"}})
    outcome = runner.perform(experiment, workshop, (1, 2))
    (model,) = (workshop.folder / "models").iterdir()
    inits = {cell.content["config"]["train"]["init"] for cell in outcome.cells.values()}
    assert inits == {model.name}
    assert len(list((workshop.folder / "cells").glob("*.json"))) == 7
    model.unlink()  # cells that came without it are enough
    runner.perform(experiment, workshop, (1, 2))
    assert not model.exists()


def test_the_table_has_our_numbers_with_the_papers_beside_them(workshop):
    outcome = runner.perform(toy(), workshop, (1, 2))
    written = page.write(outcome, "flr reproduce toy")
    markdown = (written.folder / "table.md").read_text()
    accuracies = outcome.scores("fedavg", "quiet")
    assert f"{100 * sum(accuracies) / 2:.2f} ± " in markdown
    assert "50.00 ± 1.50" in markdown
    latex = (written.folder / "table.tex").read_text()
    assert r"50.00 $\pm$ 1.50" in latex
    assert latex.count(r"\\") == 3
    lines = (written.folder / "runs.csv").read_text().splitlines()
    assert len(lines) == 7
    html = (written.folder / page.INDEX).read_text()
    assert "FLR wins" in html
    assert "flr reproduce toy" in html


def test_a_cell_gives_back_the_curve_it_was_made_from(workshop):
    outcome = runner.perform(toy(), workshop, (1,))
    cell = outcome.cells[next(p for p in outcome.cells if p.row == "flr")]
    assert [line["round"] for line in cell.curve] == [1, 2, 3]
    last = cell.curve[-1]
    assert last["accuracy"] == cell.summary["accuracy"]["last"]
    assert last["memorization"]["client"] == cell.summary["memorization"]["client"]
    json.dumps(cell.curve)
