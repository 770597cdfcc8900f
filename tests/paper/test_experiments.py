"""The files of the paper's tables and figures: complete, consistent, and resolvable."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flr.config import Config
from flr.core.errors import ConfigError
from flr.paper import experiment, outputs, results, tables
from flr.paper.claims.judgement import Claim
from flr.paper.experiment import Coordinates, Experiment, Scale
from flr.paper.runner import Runner
from flr.report.memorization import KEYS
from flr.report.summary import SIDES

NAMES = experiment.names()
# studies that the paper points to have no laptop scale
LAPTOP = [name for name in NAMES if "laptop" in experiment.scales(name)]
SCALES: tuple[Scale, ...] = ("laptop", "paper")
SAMPLES = {"cifar10": (10, 5_000), "cifar100": (100, 500)}  # classes, images of each
# Two tables or figures that show the same run: (name, row, setting) of each.
SHARED = [
    (("fig-memorization-fedavg", "fedavg", "iid"), ("table-memorization", "fedavg", "iid")),
    (("fig-memorization-flr", "flr", "iid"), ("table-memorization", "flr", "iid")),
    (("fig-memorization-flr", "fedavg", "iid"), ("table-memorization", "fedavg", "iid")),
    (("fig-tsne", "fedavg", "iid"), ("table-memorization", "fedavg", "iid")),
    (("fig-tsne", "flr", "iid"), ("table-memorization", "flr-ce", "iid")),
    (("table-choices", "ce", "iid"), ("table-memorization", "flr-ce", "iid")),
    (("table-choices", "schedule", "iid"), ("table-memorization", "flr", "iid")),
    (("table-regularizers", "ce", "sym-0.0-0.8"), ("table-memorization", "fedavg", "iid")),
    (("fig-server-aware", "fedavg", "rho-0.8"), ("table-memorization", "fedavg", "iid")),
    (("fig-server-aware", "fedavg", "rho-0.6"), ("table-regularizers", "ce", "sym-0.0-0.6")),
]


@cache
def load(name: str, scale: Scale = "laptop", quick: bool = False) -> Experiment:
    return experiment.load(name, scale, quick)


TRAINED = [n for n in NAMES if load(n, "paper").rows and load(n, "paper").settings]


@cache
def configs(name: str, scale: Scale = "laptop", quick: bool = False) -> dict[Coordinates, Config]:
    """The runs of one seed; of what is only looked at, the settings."""
    found = load(name, scale, quick)
    untrained = [] if found.rows else [Coordinates("", setting, 1) for setting in found.settings]
    return {place: found.config(place) for place in [*found.places((1,)), *untrained]}


def claims() -> list[tuple[str, Claim]]:
    return [(name, claim) for name in NAMES for claim in load(name, smallest(name)).claims]


def smallest(name: str) -> Scale:
    return experiment.scales(name)[0]


def the_papers(found: Experiment) -> list[str]:
    """The settings that the paper has."""
    return [key for key, setting in found.settings.items() if not setting.ours]


def preset(name: str) -> dict[str, Any]:
    path = resources.files("flr.config").joinpath("presets", f"{name}.toml")
    return tomllib.loads(path.read_text("utf-8"))


def is_central(config: Config) -> bool:
    return config.partition.name == "central"


@pytest.mark.parametrize(
    ("scale", "quick"),
    [(scale, False) for scale in ("laptop", "features", "middle", "paper")]
    + [(scale, True) for scale in ("laptop", "features")],
)
@pytest.mark.parametrize("name", NAMES)
def test_every_run_of_every_experiment_resolves(name, scale, quick):
    if scale not in experiment.scales(name):
        with pytest.raises(ConfigError, match=f"has {experiment.scales(name)[0]}"):
            load(name, scale, quick)
        return
    found = load(name, scale, quick)
    assert found.shows in outputs.KINDS
    for config in configs(name, scale, quick).values():
        assert not (quick and found.rows and scale == "laptop") or config.rounds < 30


def test_features_have_every_table_and_the_middle_scale_one():
    for scale, names in (("features", TRAINED), ("middle", ["table-memorization"])):
        assert [name for name in TRAINED if scale in experiment.scales(name)] == names


@pytest.mark.parametrize("name", TRAINED)
def test_features_are_the_papers_federation_with_one_budget(name):
    for place, config in configs(name, "features").items():
        paper = configs(name, "paper")[place]
        assert config.data.backbone is not None
        assert config.data.train is None
        for option in ("participation", "epochs", "batch", "momentum"):
            assert getattr(config.train, option) == getattr(paper.train, option)
        assert config.partition == paper.partition
        assert config.noise == paper.noise or name == "table-clothing1m"
    rounds = {c.rounds for c in configs(name, "features").values() if not is_central(c)}
    assert len(rounds) == 1
    assert load(name, "features").seeds == (1, 2, 3, 4, 5)


def test_the_queue_has_three_seeds_everywhere_before_five_anywhere():
    queue = list(experiment.queue("features"))
    names = [each.name for each, _ in queue]
    half = len(names) // 2
    assert names[:half] == names[half:]
    assert names[:4] == [
        *("table-memorization", "table-regularizers", "fig-dirichlet", "table-cifar100")
    ]
    assert {len(seeds) for _, seeds in queue[:half]} == {3}
    assert {len(seeds) for _, seeds in queue[half:]} == {5}


@pytest.mark.parametrize("row", ["coteaching", "rofl"])
def test_a_given_rate_is_the_settings_own_and_an_estimate_knows_nothing(row):
    found = configs("fig-dirichlet", "features")
    for setting, part in load("fig-dirichlet", "features").settings.items():
        given = found[Coordinates(row, setting, 1)].method[0].options["forget_rate"]
        noise = found[Coordinates(row, setting, 1)].noise.options
        # rates are uniform between the floor and 1; a tenth of what is drawn is the true class
        assert given == part.wrong
        assert given == pytest.approx(noise["clients"] * (1 + noise["floor"]) / 2 * 0.9)
        estimated = found[Coordinates(f"{row}-estimated", setting, 1)].method[0].options
        assert estimated["forget_rate"] == "confident"


@pytest.mark.parametrize("name", LAPTOP)
def test_the_first_line_says_what_it_is_and_the_laptop_leaves_out_what_it_says(name):
    text = resources.files("flr.paper").joinpath("experiments", f"{name}.toml").read_text("utf-8")
    assert text.startswith(("# The table of ", "# The figure of "))
    out = [place for place in configs(name, "paper") if place not in configs(name, "laptop")]
    assert bool(out) == ("# left out, for time\n" in text)
    kept = [place for place in configs(name, "paper") if place not in out]
    assert list(configs(name, "laptop")) == kept


@pytest.mark.parametrize("name", LAPTOP)
def test_paper_scale_has_the_papers_networks_and_the_laptop_a_small_one(name):
    networks = {"cifar10": "resnet18", "cifar100": "resnet34", "clothing1m": "resnet50"}
    for config in configs(name, "paper").values():
        assert config.train.model.name == networks[config.data.source.name]
    if "preset" in load(name).document and load(name).rows:
        assert {c.train.model.name for c in configs(name).values()} == {"cnn"}


@pytest.mark.parametrize("name", [name for name in TRAINED if name in LAPTOP])
def test_on_a_laptop_all_federated_rows_have_one_budget(name):
    document = load(name).document
    rounds = document.get("config", {}).get("rounds", preset(document["preset"])["rounds"])
    federated = [config for config in configs(name).values() if not is_central(config)]
    assert {config.rounds for config in federated} == {rounds}
    assert {(c.data.train, c.data.test) for c in configs(name).values()} == {(5000, 2000)}


@pytest.mark.parametrize("data", ["cifar100", "clothing1m"])
def test_on_a_laptop_options_that_were_tried_are_those_of_cifar10(data):
    tried = {"elr": ["lam", "beta"], "gce": ["q", "kappa"], "fedprox": ["mu"], "mixup": ["alpha"]}
    chosen, theirs = preset("laptop-cifar10")["methods"], preset(f"laptop-{data}")["methods"]
    for method in tried.keys() & theirs.keys():
        for option in tried[method]:
            assert theirs[method][option] == chosen[method][option], (method, option)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize(("one", "other"), SHARED)
def test_what_is_shown_twice_is_trained_once(one, other, scale):
    hashes = {
        results.hash_of(configs(name, scale)[Coordinates(row, setting, 1)])
        for name, row, setting in (one, other)
    }
    assert len(hashes) == 1


def test_what_has_no_trials_is_left_out_at_that_scale():
    paper, laptop = (load("fig-dirichlet", scale) for scale in ("paper", "laptop"))
    out = {f"{row}{how}" for row in ("rofl", "coteaching") for how in ("", "-estimated")}
    assert out == paper.rows.keys() - laptop.rows.keys()
    assert {"dir1-0.5-0.6", "dir10-0.5-0.6"} == paper.settings.keys() - laptop.settings.keys()
    assert len(configs("fig-dirichlet")) == 30
    named = {row for claim in laptop.claims for row in (claim.row, claim.than)}
    assert named <= laptop.rows.keys()
    assert len(laptop.claims) < len(paper.claims)


def test_longer_curves_of_a_laptop_are_shown_once_only():
    one, other = ("fig-server-aware", "flr", "rho-1.0"), ("fig-curves", "flr", "iid")
    for scale, runs in (("paper", 1), ("laptop", 2)):
        found = {
            results.hash_of(configs(name, scale)[Coordinates(row, setting, 1)])
            for name, row, setting in (one, other)
        }
        assert len(found) == runs


def test_models_that_a_picture_needs_are_kept_by_the_table_that_trains_them():
    assert load("fig-tsne").models == "need"
    assert load("table-memorization").models == "keep"


@pytest.mark.parametrize("name", LAPTOP)
def test_no_two_places_of_one_experiment_are_the_same_run(name):
    hashes = [results.hash_of(config) for config in configs(name, "laptop").values()]
    assert len(set(hashes)) == len(hashes)


@pytest.mark.parametrize("scale", SCALES)
def test_centralised_rows_have_the_labels_of_the_federation(scale):
    found = configs("table-cifar100", scale)
    federated = found[Coordinates("fedavg", "sym-0.0-0.6", 1)]
    central = [config for config in found.values() if is_central(config)]
    assert len(central) == 30
    for config in central:
        for option in ("clients", "stratified"):
            assert config.partition.options[option] == federated.partition.options[option]
        assert (config.train.epochs, config.train.participation) == (1, 1.0)
        assert config.train.keep_optimizer


def test_the_stand_in_is_named_so_and_starts_from_another_data_set():
    found = load("table-clothing1m")
    (setting,) = found.settings.values()
    for text in (found.title, found.caveat, setting.title):
        assert "stand-in" in text.lower()
    assert found.pretrain is not None
    before = found.resolve(1, found.pretrain)
    runs = list(configs("table-clothing1m").values())
    assert before.noise.name == "none"
    assert before.data.source.name != runs[0].data.source.name
    assert {config.train.model for config in runs} == {before.train.model}
    assert load("table-clothing1m", "paper").pretrain is None


# ---- claims


@pytest.mark.parametrize(("name", "claim"), claims())
def test_claims_compare_what_is_run(name, claim):
    found = load(name, smallest(name))
    for setting in claim.settings or the_papers(found):
        for row in (claim.row, claim.than):
            assert Coordinates(row, setting, 1) in configs(name, found.scale), (row, setting)
    assert claim.row != claim.than
    assert claim.wants in ("higher", "lower", "equal")
    assert (claim.margin > 0) == (claim.wants == "equal")
    kind, *path = claim.value.split(".")
    if kind == "accuracy":
        assert path[0] in ("best", "last", "last10")
    else:
        assert kind == "memorization"
        assert path[0] in SIDES
        assert path[1] in KEYS


@pytest.mark.parametrize(("name", "claim"), claims())
def test_the_papers_own_numbers_support_its_claims(name, claim):
    found = load(name, smallest(name))
    for setting in claim.settings or the_papers(found):
        ours, theirs = (
            number(found.paper(row, setting), claim.value) for row in (claim.row, claim.than)
        )
        if ours is None or theirs is None:
            continue  # the paper has a picture there, or no such row
        gain = ours - theirs
        if claim.wants == "equal":
            assert abs(gain) <= 100 * claim.margin
        else:
            assert gain > 0 if claim.wants == "higher" else gain < 0


def number(known: list[float] | None, value: str) -> float | None:
    """The paper's number for a path of a run's summary."""
    if known is None:
        return None
    if value.startswith("accuracy"):
        return known[-1] if len(known) == 11 else known[0]
    _, side, key = value.split(".")
    return known[len(KEYS) * ("server", "client").index(side) + KEYS.index(key)]


# ---- the paper's numbers


@pytest.mark.parametrize("name", NAMES)
def test_the_papers_numbers_belong_to_rows_and_settings(name):
    found = load(name, "paper")
    known = found.document.get("paper", {})
    for row, numbers in known.items():
        assert row in found.rows
        assert set(numbers) == (set(the_papers(found)) or {"table"})
        assert not found.rows[row].ours
    if known:
        assert [row.key for row in found.rows.values() if not row.ours] == list(known)


def test_memorized_missed_and_learned_sum_to_a_hundred():
    found = load("table-memorization")
    for row, settings in found.document["paper"].items():
        for setting, numbers in settings.items():
            assert len(numbers) == 2 * len(KEYS) + 1
            for start in (0, len(KEYS)):
                clean, noisy = numbers[start : start + 2], numbers[start + 2 : start + 5]
                assert sum(clean) == pytest.approx(100, abs=0.03), (row, setting)
                assert sum(noisy) == pytest.approx(100, abs=0.03), (row, setting)


# Sums over rows, from another copy of the tables than the files are from: a wrong digit shows.
@pytest.mark.parametrize(
    ("name", "means", "deviations"),
    [
        (
            "table-cifar100",
            [791.30, 716.17, 687.17, 535.28, 866.85],
            [19.53, 25.97, 15.12, 15.87, 8.12],
        ),
        ("table-regularizers", [482.95, 448.94, 503.23, 487.72], [4.21, 5.68, 1.77, 3.54]),
        ("table-clothing1m", [612.12], [4.03]),
    ],
)
def test_sums_of_the_papers_columns(name, means, deviations):
    found = load(name, "paper")
    for setting, mean, deviation in zip(the_papers(found), means, deviations, strict=True):
        column = [numbers[setting] for numbers in found.document["paper"].values()]
        assert sum(m for m, _ in column) == pytest.approx(mean, abs=1e-6)
        assert sum(d for _, d in column) == pytest.approx(deviation, abs=1e-6)


def test_the_registry_agrees_with_the_papers_table_of_related_methods():
    found = load("table-related", "paper")
    by_title = {row.title: row for row in found.rows.values()}
    for title, *signs, text in tables.related(Runner(Path()).gather(found)).rows:
        key = next(row.key for name, row in by_title.items() if title.startswith(name))
        if key not in found.document["paper"]:
            continue
        stated = dict(part.split() for part in text.split(", "))
        ours = {f"P{place}": sign for place, sign in enumerate(signs, start=1) if sign}
        if key == "fedcorr":
            assert (ours.pop("P5"), stated.pop("P5")) == ("○", "△")
        assert ours == stated, title


# ---- what is only looked at


@pytest.mark.parametrize("name", [n for n in NAMES if "partitions" in n])
def test_partitions_can_be_dealt(name):
    for config in configs(name, "laptop").values():
        classes, each = SAMPLES[config.data.source.name]
        config.partition.build().feasible(np.full(classes, each))
        assert config.data.train is None
