"""Results of a run whose method a plugin has registered are read where the plugin is not."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

import flr
from flr.core import registry
from flr.core.errors import ConfigError

CONFIG = {
    "rounds": 2,
    "workers": 1,
    "data": {"name": "digits", "train": 60, "test": 20},
    "partition": {"kind": "iid", "clients": 3},
    "noise": {"kind": "symmetric", "clients": 1.0},
    "train": {"model": "linear", "epochs": 1},
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A run of a method that is gone afterwards, and one to compare it with."""
    folder = tmp_path_factory.mktemp("runs")
    for kind in registry.KINDS:  # what is loaded first meanwhile would be lost afterwards
        registry.entries(kind)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "_entries", dict(registry._entries))

        @flr.register("theirs", title="Theirs")
        @dataclass(frozen=True)
        class Theirs(flr.Method):
            """FedAvg.

            Leaves the site: weights and the number of samples.
            """

            lam: float = 0.5

        flr.run({**CONFIG, "method": "theirs"}, out=folder / "theirs")
    flr.run({**CONFIG, "method": "fedavg"}, out=folder / "fedavg")
    return folder / "fedavg", folder / "theirs"


def test_they_are_compared_in_one_group(folders, cli):
    done = cli("compare", *folders)
    assert done.code == 0, done.err
    assert flr.compare(folders).frame()["method"].tolist() == ["fedavg", "theirs"]


def test_the_config_is_read_with_its_options(folders):
    config = flr.Run(str(folders[1])).config
    assert config.label == "theirs"
    assert config.method[0].options == {"lam": 0.5}
    assert 'name = "theirs"' in config.to_toml()


@pytest.mark.parametrize("command", [("audit",), ("resume",)])
def test_what_computes_says_what_is_missing(folders, cli, command):
    done = cli(*command, folders[1])
    assert done.code == 3
    assert 'method "theirs" is of a plugin that is not' in done.err.replace("\n", " ")


def test_a_config_of_ones_own_names_what_is_there(folders):
    with pytest.raises(ConfigError, match='"theirs" is not known'):
        flr.run({**CONFIG, "method": "theirs"}, out=folders[0].parent / "again")
