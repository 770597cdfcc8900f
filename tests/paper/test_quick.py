"""Every table and figure from the command line, on the real data, with runs of seconds."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner

from flr.cli.main import app
from flr.paper import experiment
from flr.paper.pages import experiment as page

FEW = 2  # runs that CI has time for


def runs(name: str) -> int:
    return len(list(experiment.load(name, scale(name)).places((1,))))


def scale(name: str) -> experiment.Scale:
    """The smallest that it has."""
    return experiment.scales(name)[0]


def all_names() -> list[object]:
    return [
        pytest.param(name, marks=pytest.mark.full if runs(name) > FEW else ())
        for name in experiment.names()
    ]


@pytest.fixture(scope="module")
def shared_cells(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all, as cells are shared."""
    return tmp_path_factory.mktemp("reproduction")


def call(*arguments: object) -> str:
    result = CliRunner().invoke(app, ["reproduce", *map(str, arguments)])
    assert result.exit_code == 0, (result.output, result.exception)
    return result.output


@pytest.mark.parametrize("name", all_names())
def test_it_ends_in_a_complete_table_or_picture(name, publisher, shared_cells, monkeypatch):
    monkeypatch.setenv("FLR_DATA", str(publisher))
    call(name, "--scale", scale(name), "--quick", "--workers", 1, "--out", shared_cells)
    folder = shared_cells / f"{name}-{scale(name)}-quick"
    assert (folder / page.INDEX).stat().st_size > 3000
    pictures, tables = list(folder.glob("figure.*")), list(folder.glob("table.*"))
    assert pictures or tables
    for picture in folder.glob("*.png"):
        assert min(Image.open(picture).size) > 300
    if name.startswith("table-"):
        assert {file.suffix for file in tables} == {".md", ".csv", ".tex"}
    if name.startswith("fig-"):
        assert {file.suffix for file in pictures} == {".png", ".pdf"}
    if runs(name):
        lines = (folder / "runs.csv").read_text().splitlines()
        assert len(lines) == 1 + runs(name)


def test_the_list_names_all_and_a_plan_trains_nothing(tmp_path):
    listed = call("--list")
    assert all(name in listed for name in experiment.names())
    planned = call("table-memorization", "--plan", "--seeds", "1,2", "--out", tmp_path / "out")
    assert "20 runs with seeds 1, 2, 0 finished" in planned.replace("\n", " ")
    assert not (tmp_path / "out").exists()


def test_some_rows_are_planned_and_what_is_there_is_shown_without_training(tmp_path):
    planned = call("table-memorization", "--plan", "--only", "flr,iid", "--out", tmp_path / "out")
    assert "0 finished; about" in planned.replace("\n", " ")
    assert "hours for 3 of the rest" in planned.replace("\n", " ")
    shown = call("table-memorization", "--no-train", "--out", tmp_path / "out")
    assert "not run: FLR reduces" in shown
    assert not (tmp_path / "out" / "runs").exists()
    both = ["reproduce", "table-memorization", "--no-train", "--only", "flr"]
    assert CliRunner().invoke(app, both).exit_code == 2


def test_a_common_beginning_stands_for_all(publisher, tmp_path, monkeypatch):
    monkeypatch.setenv("FLR_DATA", str(publisher))
    call("fig-transition", "--out", tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {
        "fig-transition-cifar10-laptop",
        "fig-transition-cifar100-laptop",
    }


@pytest.mark.parametrize("change", ["seed=2", "workers=3", "nonsense"])
def test_changes_that_have_an_option_of_their_own_are_refused(change):
    result = CliRunner().invoke(app, ["reproduce", "fig-tsne", "--plan", "--set", change])
    assert "--" in str(result.exception)


def test_missing_data_are_named_before_anything_is_trained(tmp_path, monkeypatch):
    monkeypatch.setenv("FLR_DATA", str(tmp_path / "nowhere"))
    arguments = ["reproduce", "fig-memorization-fedavg", "--quick", "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(app, arguments)
    assert "flr data get cifar10" in str(result.exception)
    assert not (tmp_path / "out" / "runs").exists()


@pytest.mark.parametrize("seeds", ["", "1,,2", "a", "-1", "1,1"])
def test_seeds_are_different_numbers(seeds):
    result = CliRunner().invoke(app, ["reproduce", "fig-tsne", "--seeds", seeds])
    assert "--seeds" in str(result.exception)
