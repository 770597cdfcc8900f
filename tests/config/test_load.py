"""Configs that are fine: defaults, ways to write an entry, overrides, and back to TOML."""

from __future__ import annotations

import functools
import json
import pickle
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from flr.config import load, parse
from flr.config.entry import ConfigEntry, parse_entry
from flr.core import registry
from flr.core.combine import parts_of


def test_the_shape_of_the_foundation_issue(tmp_path: Path) -> None:
    path = tmp_path / "experiment.toml"
    path.write_text("""\
seed = 1
rounds = 60
method = [{ name = "flr", lam = 2.0, warmup = "ce", warmup_rounds = 10 }, "picky"]
aggregate = "mean"
workers = 2
min_replies = 1
drop = 0.0
checkpoint_every = 10
[data]
name = "digits"
train = 500
[scenario]
[partition]
kind = "bernoulli-dirichlet"
clients = 20
p = 0.5
alpha = 1
[noise]
kind = "symmetric"
clients = 1.0
floor = 0.0
[train]
model = "mlp"
participation = 0.25
epochs = 5
batch = 10
lr = 0.1
momentum = 0.5
[eval]
every = 1
memorization_every = 1
""")
    config = load(path)
    assert config.label == "flr+picky"
    assert config.method[0].options["warmup_rounds"] == 10
    assert config.data.source == ConfigEntry("dataset", "digits", {})
    assert config.data.train == 500
    assert config.partition.build().sites == 20
    assert config.partition.options["alpha"] == 1.0
    assert [type(part).__name__ for part in parts_of(config.build_method())] == ["FLR", "Picky"]


def test_defaults() -> None:
    config = parse({"rounds": 3})
    assert (config.seed, config.label, config.aggregate.name) == (1, "flr", "mean")
    assert (config.workers, config.min_replies, config.checkpoint_every) == (2, 1, 10)
    assert (config.partition.name, config.partition.options["clients"]) == ("iid", 20)
    assert config.noise == ConfigEntry("noise", "none", {})
    assert config.train.model.name == "mlp"
    assert config.train.device == "cpu"
    assert config.train.asked(20) == 5
    assert parse({"rounds": 3, "train": {"participation": 0.29}}).train.asked(100) == 29
    assert parse({"rounds": 3, "train": {"participation": 0.01}}).train.asked(5) == 1


@pytest.mark.parametrize("kind", registry.KINDS)
def test_every_entry_has_valid_defaults(kind: str) -> None:
    for name in registry.entries(kind):
        if name == "timm":  # asks timm whether it has the model: tests/models/backbones
            continue
        needed = {"path": "somewhere"} if kind == "dataset" and name != "digits" else {}
        needed |= {"model": "somewhere"} if name == "huggingface" else {}
        entry = parse_entry(kind, {"name": name, **needed}, default=name)
        assert parse_entry(kind, entry.table("name"), default=name) == entry
        entry.build()


def test_a_choice_is_a_name_or_a_table() -> None:
    short = parse({"rounds": 1, "noise": "none", "data": "digits", "partition": "central"})
    long = parse(
        {
            "rounds": 1,
            "noise": {"kind": "none"},
            "data": {"name": "digits"},
            "partition": {"kind": "central"},
            "method": [{"name": "flr"}],
            "aggregate": {"name": "mean"},
            "train": {"model": {"name": "mlp"}},
        }
    )
    assert short == long
    assert parse({"rounds": 1, "partition": {"clients": 7}}).partition.options["clients"] == 7


def test_nothing_means_the_default() -> None:
    assert parse({"rounds": 1, "train": {"clip": None, "lr": None}, "data": None}) == parse(
        {"rounds": 1}
    )


def test_options_get_the_types_of_their_annotations() -> None:
    table = {"name": "picky", "strength": 2, "names": ["x"], "file": "a/b", "table": {"k": 1}}
    (entry,) = parse({"rounds": 1, "method": table}).method
    assert entry.options == {
        "strength": 2.0,
        "steps": 3,
        "mode": "soft",
        "names": ("x",),
        "table": {"k": 1.0},
        "file": Path("a/b").absolute(),
        "map": "own",
    }
    assert isinstance(entry.options["strength"], float)
    built = entry.build()
    assert (built.names, built.file) == (("x",), Path("a/b").absolute())


def test_an_alias_keeps_what_it_fixes() -> None:
    (entry,) = parse({"rounds": 1, "method": "meek"}).method
    assert entry.options["strength"] == 0.1
    assert entry.build().strength == 0.1
    assert "strength" not in entry.table("name")


def test_the_engine_s_arguments_are_left_open() -> None:
    config = parse({"rounds": 1, "aggregate": {"name": "middle", "share": 0.2}})
    assert config.aggregate.build()([], "model.", {}) == {"share": 0.2, "prefix": "model."}
    network = parse({"rounds": 1, "train": {"model": {"name": "mlp", "hidden": 3}}}).train.model
    assert isinstance(network.build(), functools.partial)
    assert network.build()((4,), 2)(torch.zeros(1, 4)).shape == (1, 2)


def test_a_model_of_one_s_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    module = SimpleNamespace(make=lambda shape, classes, deep=1: ("made", shape, classes, deep))
    monkeypatch.setitem(sys.modules, "own_models", module)
    table = {"name": "own_models:make", "deep": 3}
    config = parse({"rounds": 1, "train": {"model": table}})
    assert config.train.model.build()((4,), 2) == ("made", (4,), 2, 3)
    assert parse(tomllib.loads(config.to_toml())) == config


def test_overrides_win_and_need_no_quotes(tmp_path: Path) -> None:
    path = tmp_path / "experiment.toml"
    names = 'method = "flr"\nnoise = "symmetric"\nattack = "sign-flip"\n'
    path.write_text(f"rounds = 3\n{names}[train]\nlr = 0.1\n")
    overrides = [
        "noise.floor = 0.5",
        "attack.clients=1",
        "train.lr=1",
        "method.lam=3",
        "train.model.name=cnn",
        'data={ name = "digits", train = 100 }',
        "train.model.width=8",
        "partition.kind=central",
    ]
    config = load(path, overrides)
    assert config.noise.options["floor"] == 0.5
    assert (config.attack.name, config.attack.options["clients"]) == ("sign-flip", 1.0)
    assert config.train.lr == 1.0
    assert config.method[0].options["lam"] == 3.0
    assert (config.train.model.name, config.train.model.options["width"]) == ("cnn", 8)
    assert (config.data.train, config.partition.name) == (100, "central")

    path.write_text('rounds = 3\nmethod = ["flr", "picky"]\n')
    config = load(path, ["method.1.steps=5", "method.0.lam=1.5"])
    assert [c.options.get("steps", c.options.get("lam")) for c in config.method] == [1.5, 5]


def test_a_byte_order_mark_is_no_error(tmp_path: Path) -> None:
    path = tmp_path / "experiment.toml"
    path.write_bytes(b"\xef\xbb\xbfrounds = 3\r\n")
    assert load(path) == parse({"rounds": 3})


def test_a_config_is_a_frozen_value() -> None:
    config = parse({"rounds": 3})
    with pytest.raises(ValidationError):
        config.rounds = 4
    assert pickle.loads(pickle.dumps(config)) == config
    assert hash(config) == hash(parse({"rounds": 3}))


def test_groups_leave_out_seeds_methods_and_machinery() -> None:
    base: dict[str, Any] = {"rounds": 3}
    same: list[dict[str, Any]] = [
        {"seed": 2},
        {"method": "fedavg"},
        {"workers": 1},
        {"checkpoint_every": 3},
        {"trackers": ["tensorboard"]},
        {"scenario": {"seed": 3}},
        {"scenario": {"path": "s"}},
        {"noise": "symmetric"},
        {"partition": "central"},
    ]
    other: list[dict[str, Any]] = [
        {"rounds": 4},
        {"train": {"lr": 0.2}},
        {"eval": {"every": 2}},
        {"drop": 0.1},
        {"data": {"train": 100}},
        {"aggregate": "middle"},
    ]
    key = parse(base).group_key()
    assert json.loads(key)["rounds"] == 3
    assert {parse({**base, **change}).group_key() for change in same} == {key}
    assert (
        len({parse({**base, **change}).group_key() for change in other} | {key}) == len(other) + 1
    )


def test_a_saved_scenario_stands_for_split_and_noise() -> None:
    config = parse({"rounds": 1, "scenario": {"path": "s.safetensors"}, "min_replies": 1000})
    assert "[partition]" not in config.to_toml()
    assert parse(tomllib.loads(config.to_toml())) == config


SHARE = st.floats(0, 1) | st.integers(0, 1)
RATE = st.floats(1e-9, 1e9) | st.integers(1, 10**6)
COUNT = st.integers(1, 2**63 - 1)
TEXT = st.text(st.characters(codec="utf-8"), max_size=20)


def table(required: dict[str, Any] | None = None, **optional: Any) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(required or {}, optional=optional)


FLR = table({"name": st.just("flr")}, lam=RATE, alpha=SHARE, linear=st.booleans())
PICKY = table(
    {"name": st.just("picky")},
    strength=RATE,
    steps=st.integers(20, 99),
    names=st.lists(TEXT, max_size=3),
    table=st.dictionaries(TEXT, st.floats(allow_nan=False, allow_infinity=False), max_size=3),
    file=TEXT.filter(lambda text: "\0" not in text),
    map=TEXT | st.dictionaries(TEXT, TEXT, max_size=2) | st.lists(st.integers(-9, 9), max_size=3),
)
METHODS = FLR | PICKY | st.sampled_from(["flr", "fedavg", "elr", "slr", "er", "local", "global"])
MAP = TEXT.filter(bool) | st.dictionaries(TEXT, TEXT, min_size=1, max_size=3)
CONFIGS = table(
    {"rounds": st.integers(1, 99)},
    seed=st.integers(0, 2**63 - 1),
    method=METHODS | st.tuples(FLR, PICKY).map(list) | METHODS.map(lambda one: [one]),
    aggregate=st.just("mean") | table({"name": st.just("middle")}, share=RATE),
    workers=COUNT,
    drop=st.floats(0, 0.99),
    checkpoint_every=COUNT,
    trackers=st.just(["tensorboard"]),
    data=table(train=COUNT, test=COUNT, augment=st.sampled_from(["auto", "none", "crop-flip"]))
    | table({"name": st.just("csv"), "path": TEXT}, label=TEXT),
    scenario=table(seed=COUNT),
    partition=table(clients=st.integers(1, 10**6), stratified=st.booleans())
    | table({"kind": st.just("bernoulli-dirichlet")}, p=st.floats(0.01, 1), alpha=RATE),
    noise=table({"kind": st.just("symmetric")}, clients=SHARE, floor=SHARE)
    | table({"kind": st.just("asymmetric")}, map=MAP),
    train=table(
        model=st.just("cnn") | table({"name": st.just("mlp")}, hidden=COUNT),
        participation=st.floats(0.01, 1),
        lr=RATE,
        clip=RATE,
        keep_optimizer=st.booleans(),
        optimizer=st.sampled_from(["sgd", "adam"]),
        device=st.sampled_from(["auto", "cpu"]),
    ),
    eval=table(every=COUNT, memorization_every=COUNT),
)


@settings(max_examples=200, deadline=None)
@given(CONFIGS)
def test_the_resolved_toml_gives_an_equal_config(raw: dict[str, Any]) -> None:
    config = parse(raw)
    text = config.to_toml()
    again = parse(tomllib.loads(text))
    assert again == config
    assert again.to_toml() == text
    assert again.group_key() == config.group_key()


def test_a_config_says_nothing_of_measures_that_nobody_asked_for() -> None:
    plain = tomllib.loads(parse({"rounds": 3}).to_toml())
    assert plain["eval"] == {"every": 1, "memorization_every": 1}, "older runs can be resumed"
    asked = {"validation": 0.1, "select": "validation", "patience": 3, "metrics": ["auroc"]}
    config = parse({"rounds": 3, "eval": asked})
    assert parse(tomllib.loads(config.to_toml())) == config


def test_metrics_do_not_part_runs_and_held_out_labels_do() -> None:
    plain, measured, trained_on_less = (
        parse({"rounds": 3, "eval": part}).group_key()
        for part in ({}, {"metrics": ["auroc"]}, {"validation": 0.1})
    )
    assert plain == measured != trained_on_less
