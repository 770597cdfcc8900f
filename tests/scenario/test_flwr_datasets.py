"""Partitioners of Flower Datasets; runs where the package is installed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flr
from flr.config import parse
from flr.core.errors import ConfigError
from flr.simulation.build import load_data, load_scenario

MODULE = "flwr_datasets.partitioner:"
LABELS = np.repeat(np.arange(5), 40)


def settings(kind: str, **options: Any) -> dict[str, Any]:
    small = {"rounds": 1, "workers": 1, "train": {"epochs": 1}, "data": {"train": 200, "test": 20}}
    return {**small, "partition": {"kind": MODULE + kind, **options}}


def split(kind: str, seed: int = 0, **options: Any) -> list[Any]:
    partition = parse(settings(kind, **options)).partition.build()
    return partition.split(LABELS, 5, np.random.default_rng(seed))[0]


def test_pathological_gives_each_site_so_many_classes():
    sites = split("PathologicalPartitioner", num_partitions=10, num_classes_per_partition=2)
    assert [len(np.unique(LABELS[site])) for site in sites] == [2] * 10
    assert np.array_equal(np.sort(np.concatenate(sites)), np.arange(200))
    assert all((np.diff(site) > 0).all() for site in sites)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("IidPartitioner", {"num_partitions": 7}),
        ("DirichletPartitioner", {"clients": 4, "alpha": 0.5, "min_partition_size": 1}),
        ("ShardPartitioner", {"clients": 4, "num_shards_per_partition": 2}),
        ("LinearPartitioner", {"clients": 4}),
    ],
)
def test_the_scenarios_seed_decides(kind, options):
    first, again, other = (split(kind, seed, **options) for seed in (1, 1, 2))
    assert len(first) == options.get("num_partitions", 4)
    assert all(map(np.array_equal, first, again))
    assert not all(map(np.array_equal, first, other))


def test_classes_are_mixed_where_a_partitioner_cuts_in_order():
    assert all(len(np.unique(LABELS[site])) == 5 for site in split("IidPartitioner", clients=4))


def test_sizes_say_how_many_sites_there_are_and_what_is_left_out_is_said():
    given = settings("SizePartitioner", partition_sizes=[100, 50, 30])
    partition = parse(given).partition.build()
    assert partition.sites == 3
    sites, notes = partition.split(LABELS, 5, np.random.default_rng(0))
    assert [len(site) for site in sites] == [100, 50, 30]
    assert notes == ["The partitioner leaves out 20 of 200 samples."]


def test_a_run_keeps_it_in_its_config_and_scenario(tmp_path):
    given = settings("PathologicalPartitioner", clients=5, num_classes_per_partition=2)
    run = flr.run(given, out=tmp_path / "run")
    resolved = parse(given)
    again = load_scenario(run.config, load_data(run.config))
    assert run.config.partition == resolved.partition
    assert again.hash == run.summary["scenario"]
    assert again.spec["partition"]["partitioner"] == MODULE + "PathologicalPartitioner"


@pytest.mark.parametrize(
    ("kind", "options", "words"),
    [
        ("IidPartitioner", {"alpha": 1}, ["should take the options given", "alpha"]),
        ("DirichletPartitioner", {"alpha": 1, "seed": 3}, ["seed comes from [scenario] seed"]),
        ("IidPartitioner", {"clients": 3, "num_partitions": 3}, ["is clients here", "Remove it"]),
        ("NoPartitioner", {}, ["cannot be imported", "[partition] kind"]),
    ],
)
def test_mistakes_are_said_when_the_config_is_read(kind, options, words):
    with pytest.raises(ConfigError) as caught:
        parse(settings(kind, **options))
    assert all(word in str(caught.value) for word in words), caught.value


def test_a_split_that_cannot_be_made_is_refused():
    with pytest.raises(ConfigError, match="it cannot"):
        split("PathologicalPartitioner", clients=4, num_classes_per_partition=9)
