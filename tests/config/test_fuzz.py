"""Whatever is thrown at the loader: a Config, or one short ConfigError in plain words."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flr.config import Config, load, parse
from flr.core.errors import ConfigError

GOOD = """\
seed = 1
rounds = 60
method = ["flr", { name = "picky", steps = 4 }]
min_replies = 1
[data]
name = "digits"
train = 100
[partition]
kind = "iid"
clients = 20
[noise]
kind = "symmetric"
floor = 0.0
[train]
model = { name = "mlp", hidden = 32 }
lr = 0.1
[eval]
every = 1
"""
JARGON = re.compile(
    r"pydantic|Traceback|validation error|Input should|<class|Choice|Options|NoneType", re.I
)
KEYS = st.sampled_from(
    "seed rounds method aggregate workers min_replies drop checkpoint_every trackers data scenario"  # noqa: SIM905
    " partition noise train eval name kind path clients floor map lam alpha model lr epochs clip"
    " optimizer device participation every steps file names source".split()
)
NAMES = st.sampled_from(
    "flr slr er fedavg picky meek loud mean middle digits npz csv iid central bernoulli-dirichlet"  # noqa: SIM905
    " none symmetric asymmetric mlp cnn os:path os:getcwd auto cpu tensorboard sgd".split()
)
TEXT = st.text(max_size=20).filter(lambda text: not JARGON.search(text))
LEAVES = (
    NAMES
    | TEXT
    | st.integers()
    | st.sampled_from([0, 1, 2, 10**25, 0.5, 1.0, -1.0, "", "5", 2**63])
    | st.floats()
    | st.booleans()
    | st.none()
    | st.binary(max_size=5)
    | st.dates()
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=10,
)
SOURCE = "experiment.toml"


def accept_or_explain(read: Any, source: str) -> None:
    try:
        assert isinstance(read(), Config)
    except ConfigError as error:
        message = str(error)
        assert source in message
        assert not JARGON.search(message.replace(source, ""))
        assert len(message) < 12_000
        assert max(map(len, message.splitlines())) < 700
        assert message.isprintable() or message.replace("\n", "").isprintable()


@settings(max_examples=250, deadline=None)
@given(st.dictionaries(KEYS | TEXT, VALUES, max_size=8), st.booleans())
def test_generated_settings(raw: dict[str, Any], with_rounds: bool) -> None:
    if with_rounds:
        raw = {"rounds": 3, **raw}
    accept_or_explain(lambda: parse(raw, SOURCE), SOURCE)


@settings(
    max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_mutated_files(tmp_path: Path, data: st.DataObject) -> None:
    text = bytearray(GOOD.encode())
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        end = start + data.draw(st.integers(0, 6))
        words = st.sampled_from(
            [b"=", b"\n", b"[", b"]", b'"', b"{", b".", b"inf", b"9" * 30, b"["]
        )
        text[start:end] = data.draw(st.binary(max_size=4) | words | KEYS.map(str.encode))
    path = tmp_path / SOURCE
    path.write_bytes(bytes(text))
    accept_or_explain(lambda: load(path), str(path))


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(
        TEXT
        | st.builds(
            "{}={}".format,
            st.lists(KEYS | st.just("0"), min_size=1, max_size=3).map(".".join),
            LEAVES,
        ),
        max_size=4,
    )
)
def test_generated_overrides(tmp_path: Path, overrides: list[str]) -> None:
    path = tmp_path / SOURCE
    path.write_text(GOOD)
    accept_or_explain(lambda: load(path, overrides), str(path))


@pytest.mark.parametrize("text", [GOOD, "rounds = 1"])
def test_the_starting_points_are_fine(text: str, tmp_path: Path) -> None:
    path = tmp_path / SOURCE
    path.write_text(text)
    assert isinstance(load(path), Config)
