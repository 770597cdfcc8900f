"""Studies take long, so here it is only seen that they still fit the package."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path

import pytest

from benchmarks import studies
from benchmarks.studies import aggregators_under_attack, common, methods_on_digits
from benchmarks.studies import selection_by_noisy_labels as selection
from benchmarks.studies.flr_step import Trainer
from flr.config import parse
from flr.study import study_file


@pytest.mark.parametrize("name", [found.name for found in pkgutil.iter_modules(studies.__path__)])
def test_every_study_can_be_imported(name):
    importlib.import_module(f"{studies.__name__}.{name}")


@pytest.mark.parametrize("method", ["fedavg", *methods_on_digits.others()])
def test_every_method_on_digits_is_a_config(method):
    for noise in methods_on_digits.NOISES.values():
        parse(
            methods_on_digits.SETTING | {"noise": noise, "method": methods_on_digits.parts(method)}
        )


@pytest.mark.parametrize(
    "path", sorted(Path(studies.__path__[0]).glob("*.toml")), ids=lambda p: p.stem
)
def test_every_study_file_is_five_methods_under_three_noises_with_three_seeds(path):
    experiment = study_file.load(path)
    assert (len(experiment.rows), len(experiment.settings), len(experiment.seeds)) == (5, 3, 3)


def test_every_run_of_the_selection_is_a_config_that_chooses():
    for cell in selection.grid():
        assert parse(cell.config()).eval.select == "validation"
    folders = {cell.folder(selection.RESULTS) for cell in selection.grid()}
    assert len(folders) == len(list(selection.grid()))


def test_the_page_of_the_selection_is_of_its_lines():
    assert selection.PAGE.read_text() == selection.page(selection.known())


def test_the_page_of_the_selection_has_paired_differences():
    cells = [cell for cell in selection.grid(["digits"]) if cell.method == "flr"][:6:3]
    assert cells[0].noise == cells[1].noise
    keys = ("chosen", "best", "last", "last10")
    found = {
        cell.name: {**dict(zip(keys, values, strict=True)), "chosen_round": 4, "best_round": 8}
        for cell, values in zip(cells, ((0.9, 0.95, 0.7, 0.7), (0.5, 0.55, 0.3, 0.3)), strict=True)
    }
    text = selection.page(found)
    assert "| -5.0 ± 0.0 | +20.0 ± 0.0 | +20.0 ± 0.0 | 4 / 8 |" in text
    assert "| `gce` | – |" in text
    assert "features" not in text.partition("## ")[2]


def test_the_parts_of_a_step_are_those_of_flr():
    trainer = Trainer()
    trainer.as_it_is(trainer.batches())
    trainer.tables.schedule(4, 5)
    trainer.assert_alike()


def test_finished_runs_are_kept_and_others_refused(tmp_path):
    config = next(aggregators_under_attack.grid()).config() | {"rounds": 1}
    first = common.trained(tmp_path / "run", config)
    made = (first.folder / "model.safetensors").stat().st_mtime_ns
    assert common.trained(tmp_path / "run", config).summary == first.summary
    assert (first.folder / "model.safetensors").stat().st_mtime_ns == made
    with pytest.raises(SystemExit, match="it has others"):
        common.trained(tmp_path / "run", config | {"seed": 2})
