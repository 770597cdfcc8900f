"""A study's file: what comes of a grid and of lists, and every mistake at once."""

from __future__ import annotations

import pytest

from flr.core.errors import ConfigError
from flr.study import study_file
from flr.study.experiment import Coordinates, merge

BELOW = {"rounds": 2, "data": {"name": "digits", "train": 100}}


def study(**tables):
    return study_file.load({"config": BELOW, **tables})


def test_a_grid_makes_rows_of_methods_and_columns_of_noise():
    methods = ["fedavg", {"name": "flr", "lam": 1.0}, {"name": "flr", "lam": 2.0, "beta": 0.7}]
    found = study(
        settings={"loud": {"title": "noise", "noise": "symmetric"}},
        grid={"method": methods, "noise": {"floor": [0.1, 0.3]}, "train": {"lr": [0.1]}},
        seeds=[4, 7],
    )
    rows = [row.title for row in found.rows.values()]
    assert rows[0] == "FedAvg, lr = 0.1"
    assert rows[1] == "FLR (lam = 1.0), lr = 0.1"
    assert rows[2] == "FLR (lam = 2.0, beta = 0.7), lr = 0.1"
    assert [each.title for each in found.settings.values()] == [
        "noise, floor = 0.1",
        "noise, floor = 0.3",
    ]
    assert len(list(found.places(found.seeds))) == 3 * 2 * 2


def test_values_land_where_a_config_has_them_and_the_seed_is_the_runs():
    noise = {"kind": "symmetric", "clients": 0.5}
    found = study_file.load(
        {
            "config": {**BELOW, "method": "elr", "noise": noise},
            "grid": {"method": {"lam": [1.0, 4.0]}, "noise": {"floor": [0.2]}},
        }
    )
    last = list(found.places((9,)))[-1]
    config = found.config(last)
    assert (config.seed, config.method[0].name, config.method[0].options["lam"]) == (9, "elr", 4.0)
    assert config.noise.options["floor"] == 0.2
    assert config.noise.options["clients"] == 0.5


def test_stacks_and_lists_with_titles():
    found = study(
        rows={"ours": {"title": "Ours", "method": ["flr", "mixup"]}, "none": {"method": "fedavg"}},
        settings={
            "calm": {"noise": "none"},
            "loud": {"title": "much noise", "noise": {"kind": "symmetric", "floor": 0.5}},
        },
        grid={"train": {"epochs": [1, 2]}},
        reference="none, epochs = 1",
    )
    assert next(iter(found.rows)) == "ours, epochs = 1"
    assert [row.title for row in found.rows.values()][:2] == [
        "Ours, epochs = 1",
        "Ours, epochs = 2",
    ]
    assert found.config(Coordinates("ours, epochs = 2", "loud", 1)).label == "flr+mixup"


def test_a_row_may_be_run_in_some_settings_only_and_with_few_seeds():
    settings = {"a": {"noise": "none"}, "b": {"noise": {"kind": "symmetric", "floor": 0.5}}}
    rows = {"x": {"method": "flr", "only": ["b"], "trials": 1}, "y": {"method": "fedavg"}}
    found = study(rows=rows, settings=settings, grid={"partition": {"clients": [4, 5]}})
    own = [place for place in found.places(found.seeds) if place.row == "x"]
    assert [(p.setting, p.seed) for p in own] == [("b, clients = 4", 1), ("b, clients = 5", 1)]
    with pytest.raises(ConfigError, match='setting "c" is not known'):
        study(rows={"x": {"method": "flr", "only": ["c"]}}, settings=settings)


def test_a_base_lies_beside_the_study(tmp_path):
    (tmp_path / "base.toml").write_text('rounds = 5\nseed = 3\n[data]\nname = "digits"\n')
    path = tmp_path / "mine.toml"
    path.write_text('base = "base.toml"\n[config]\nrounds = 4\n[grid]\nmethod = ["flr"]\n')
    found = study_file.load(path)
    assert (found.name, found.title, found.seeds) == ("mine", "mine", (1, 2, 3))
    assert found.config(next(found.places((2,)))).rounds == 4


def test_all_mistakes_of_the_file_are_told_with_their_lines(tmp_path):
    path = tmp_path / "wrong.toml"
    path.write_text(
        'seeds = [1, 1]\ntitel = "x"\n[grid]\nseed = [1, 2]\nrounds = 3\n[rows.a]\nx = "1"\n'
    )
    with pytest.raises(ConfigError) as error:
        study_file.load(path)
    told = str(error.value)
    assert 'titel is not known in a study. Did you mean "title"?' in told
    path.write_text(path.read_text().replace('titel = "x"\n', ""))
    with pytest.raises(ConfigError) as error:
        study_file.load(path)
    told = str(error.value)
    assert "4 errors" in told
    assert "line 1: seeds" in told
    assert "stands at the top of a study" in told
    assert "line 4: [grid] rounds" in told or "should be a list of values" in told


def test_all_mistakes_of_all_runs_are_told_once_each_before_any_is_trained():
    with pytest.raises(ConfigError) as error:
        study(grid={"method": [{"name": "flr", "lamb": 1}, "fedavgg"], "noise": ["none", "fog"]})
    told = str(error.value)
    assert told.count('"fedavgg" is not known') == told.count('Did you mean "lam"?') == 1
    assert told.count('"fog" is not known') == 1


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"grid": {"method": []}}, "should be a list of values"),
        ({"grid": {"method": ["flr", "flr"]}}, "has a value twice"),
        ({"reference": "nobody"}, 'row of reference "nobody" is not known'),
        ({"seeds": []}, "seeds"),
        ({"rows": {"a": {"wrong": 0.5}}}, "is not known here"),
        ({"rows": {"a": {"trials": 0}}}, "how many of the seeds"),
    ],
)
def test_what_a_study_cannot_say(wrong, words):
    with pytest.raises(ConfigError, match=words):
        study(**wrong)


def test_a_bare_name_below_options_is_the_name_they_belong_to():
    assert merge({"method": "elr"}, {"method": {"lam": 3}}) == {"method": {"name": "elr", "lam": 3}}
    assert merge({"noise": "symmetric"}, {"noise": {"kind": "none"}}) == {"noise": {"kind": "none"}}
