"""`flr compare` by chosen columns, with standard deviations, groups by what differs, a picture."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from statistics import stdev

import pytest

from flr.core.errors import ConfigError
from flr.report import columns, comparison_figure, jsonl
from flr.report.paired_runs import grouped, special
from flr.report.recorder import METRICS
from tests.report.test_compare import run

VALUES = {"s1": 0.5, "s2": 0.9, "s3": 0.4}


@pytest.fixture
def groups():
    loud, calm = {"noise.kind": "symmetric", "noise.floor": 0.5}, {"noise.kind": "none"}
    found = [
        replace(run(method, f"{s}{name}", value + add, group=name), settings=settings)
        for name, settings in (("g", loud), ("h", calm))
        for add, method in ((0.0, "fedavg"), (0.05, "flr"))
        for s, value in VALUES.items()
    ]
    return grouped(found)


def test_groups_are_named_by_what_differs(groups):
    assert [group.what for group in groups] == ["noise = symmetric", "noise = none"]
    assert "runs/fedavg-s1g-1" in groups[0].name


def test_options_are_named_where_namesakes_differ_in_them():
    noises = [{"noise.kind": "symmetric", "noise.floor": f, "noise.ratio": "exact"} for f in (1, 2)]
    found = special([*noises, {"noise.kind": "none"}])
    assert found == ["noise = symmetric, floor = 1", "noise = symmetric, floor = 2", "noise = none"]
    assert special([{"train.lr": 0.1, "rounds": 3}, {"train.lr": 0.2, "rounds": 3}]) == [
        "lr = 0.1",
        "lr = 0.2",
    ]
    assert special([{"rounds": 3}]) == [""]


def test_chosen_numbers_with_standard_deviations(groups):
    text = columns.to_csv(groups, ["last10", "accuracy.best", "difference"], std=True)
    rows = list(csv.DictReader(io.StringIO(text)))
    assert len(rows) == 4
    assert float(rows[0]["last10"]) == pytest.approx(0.6)
    assert float(rows[0]["last10_std"]) == pytest.approx(stdev(VALUES.values()))
    assert rows[0]["difference"] == ""
    assert float(rows[1]["difference"]) == pytest.approx(0.05)
    shown = columns.table(groups, ["last10", "server"], std=False)
    assert shown.rows[1][3] == "65.0 ± 65.7"
    assert set(shown.bold) == {(row, column) for row, column in shown.bold if column in (3, 4)}
    assert (1, 3) in shown.bold
    assert (0, 3) not in shown.bold


@pytest.mark.parametrize(
    ("name", "words"),
    [("lst10", 'Did you mean "last10"'), ("accuracy", "is a dict"), ("accuracy.bst", '"best"')],
)
def test_what_is_no_number_is_refused(groups, name, words):
    with pytest.raises(ConfigError, match=words):
        columns.table(groups, [name], std=False)


def test_a_picture_has_a_panel_for_each_group(groups, make_run, tmp_path):
    found = []
    for group in groups:
        methods = {}
        for method, runs in group.methods.items():
            methods[method] = []
            for number, each in enumerate(runs):
                folder = tmp_path / f"{group.what}-{method}-{number}"
                folder.mkdir()
                jsonl.append(folder / METRICS, make_run(top=0.5 + number / 10))
                methods[method].append(replace(each, folder=folder))
        found.append(replace(group, methods=methods))
    comparison_figure.write(found, tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    comparison_figure.write(found, tmp_path / "a.pdf")
    assert (tmp_path / "a.pdf").read_bytes().startswith(b"%PDF")
    with pytest.raises(ConfigError, match=r"ends in \.png or \.pdf"):
        comparison_figure.write(found, tmp_path / "a.gif")
