"""Presets: what a paper used, filled in below what a config says itself."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from flr.config import load, parse, preset
from flr.core.errors import ConfigError


def options(raw: dict[str, Any], part: int = 0) -> dict[str, Any]:
    return dict(parse({"preset": "cifar10", **raw}).method[part].options)


@pytest.mark.parametrize("name", preset.known())
@pytest.mark.parametrize("noise", ["symmetric", "asymmetric"])
def test_every_preset_is_valid_for_every_method_it_names(name, noise):
    for method in preset.read(name)["methods"]:
        config = parse({"preset": name, "method": method, "noise": noise})
        assert config.method[0].name == method
        assert parse(tomllib.loads(config.to_toml())) == config


def test_options_depend_on_the_noise():
    assert options({"noise": "symmetric"})["lam"] == 2.0
    assert options({"noise": {"kind": "asymmetric", "floor": 0.4}})["lam"] == 3.0
    assert options({"noise": "asymmetric", "method": "elr"})["beta"] == 0.9


def test_options_depend_on_the_rest_of_the_stack():
    stack = {"preset": "cifar100", "method": ["flr", "mixup"], "noise": "symmetric"}
    assert parse(stack).method[0].options["lam"] == 2.0
    assert parse({**stack, "method": "flr"}).method[0].options["lam"] == 2.5


def test_dividemix_penalises_confidence_where_its_authors_do():
    for noise, penalised in (("symmetric", False), ("asymmetric", True)):
        assert options({"method": "dividemix", "noise": noise})["penalise_confidence"] is penalised


def test_a_preset_that_extends_another_differs_in_what_it_says():
    plain, equal = (parse({"preset": name}) for name in ("cifar100", "equal-budget-cifar100"))
    assert (plain.rounds, equal.rounds) == (400, 800)
    assert equal.model_copy(update={"rounds": 400}) == plain


def test_what_the_config_says_wins():
    raw = {"rounds": 7, "method": {"name": "flr", "lam": 9.0}, "train": {"lr": 0.5}}
    config = parse({"preset": "cifar10", **raw})
    assert (config.rounds, config.train.lr, config.method[0].options["lam"]) == (7, 0.5, 9.0)
    assert (config.train.participation, config.train.model.name) == (0.1, "resnet18")
    assert config.partition.build().sites == 100


def test_an_unknown_preset_is_answered_with_the_nearest(tmp_path):
    path = tmp_path / "x.toml"
    path.write_text('rounds = 3\npreset = "cifar11"\n')
    with pytest.raises(ConfigError, match=r'line 2: preset .*Did you mean "cifar10"'):
        load(path)


@pytest.mark.parametrize("value", [3, ["cifar10"], {"a": 1}])
def test_a_preset_is_a_name(value):
    with pytest.raises(ConfigError, match="preset"):
        parse({"rounds": 3, "preset": value})


@pytest.mark.parametrize("method", [5, [5], [{"name": 7}], []])
def test_odd_methods_are_one_clear_error(method):
    with pytest.raises(ConfigError, match="method"):
        parse({"preset": "cifar10", "method": method})


def test_a_preset_fills_only_what_a_choice_has():
    for partition in ("central", {"kind": "central"}):
        assert parse({"preset": "cifar10", "partition": partition}).partition.build().sites == 1
    assert parse({"preset": "cifar10", "partition": "iid"}).partition.build().sites == 100
    skewed = parse({"preset": "clothing1m", "partition": {"kind": "bernoulli-dirichlet", "p": 0.3}})
    assert (skewed.partition.options["clients"], skewed.partition.options["p"]) == (500, 0.3)


def test_a_saved_scenario_goes_with_a_preset():
    assert parse({"preset": "cifar10", "scenario": {"path": "s"}}).scenario.path is not None


def test_aliases_get_the_options_of_what_they_are_aliases_of():
    config = parse({"preset": "cifar100", "method": "flr+"})
    assert config.method[0].options["iterations"] == 10
    assert config.method[0].options["inner"] == {"name": "flr", "lam": 5.0}
    assert parse({"preset": "cifar100", "method": "global"}).method[0].options["lam"] == 2.5


@pytest.mark.parametrize("method", [{"name": []}, {"name": {}}, [["flr"]], {"nam": "flr"}])
def test_broken_choices_stay_config_errors(method):
    with pytest.raises(ConfigError, match="method"):
        parse({"preset": "cifar10", "method": method})


def test_a_preset_knows_the_length_of_a_method_and_what_is_inside_it():
    assert parse({"preset": "cifar10", "method": "fedcorr"}).rounds == 650
    assert parse({"preset": "cifar10", "method": "fedavg"}).rounds == 300
    assert parse({"preset": "cifar10", "method": "fedcorr", "rounds": 400}).rounds == 400
    for data, lam in (("cifar10", 3.0), ("cifar100", 5.0), ("clothing1m", 3.0)):
        inside = {"name": "fedcorr", "inner": "flr"}
        config = parse({"preset": data, "method": inside})
        assert config.method[0].options["inner"]["lam"] == lam
        assert config.rounds == {"cifar10": 650, "cifar100": 800, "clothing1m": 200}[data]
    assert config.method[0].options["inner"]["warmup_rounds"] == 50
    own = {"name": "fedcorr", "inner": {"name": "flr", "lam": 1.5}}
    assert parse({"preset": "cifar10", "method": own}).method[0].options["inner"]["lam"] == 1.5
