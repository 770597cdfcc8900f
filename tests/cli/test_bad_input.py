"""Whatever a user gets wrong: one clear message, the right exit code, never a traceback."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

GOOD = """rounds = 2
method = "flr"
[data]
name = "digits"
train = 100
test = 50
[partition]
kind = "iid"
clients = 4
[noise]
kind = "symmetric"
[train]
model = "mlp"
participation = 0.5
epochs = 1
"""

# what is wrong -> (what is changed in the good config, exit code, parts of the message)
CONFIGS = {
    "misspelt kind": (('"symmetric"', '"symetric"'), 3, ["line 11", 'Did you mean "symmetric"?']),
    "unknown method": (('"flr"', '"frl"'), 3, ["line 2", 'Did you mean "flr"?']),
    "unknown key": (("rounds = 2", "rounds = 2\nround = 3"), 3, ["line 2", "rounds"]),
    "wrong type": (("clients = 4", 'clients = "four"'), 3, ["line 9", "clients", "four"]),
    "out of range": (("participation = 0.5", "participation = 1.5"), 3, ["participation", "1.5"]),
    "missing rounds": (("rounds = 2\n", ""), 3, ["rounds"]),
    "not TOML": (("rounds = 2", "rounds = = 2"), 3, ["line 1"]),
    "two rivals": (('"flr"', '["flr", "slr"]'), 3, ["FLR", "twice"]),
    "fixed by an alias": (('"flr"', '{ name = "slr", alpha = 0.5 }'), 3, ["slr fixes alpha = 1.0"]),
    "endless warm-up": (('"flr"', '{ name = "flr", warmup_rounds = 9 }'), 3, ["warmup_rounds = 9"]),
    "more replies than clients": (
        ("rounds = 2", "rounds = 2\nmin_replies = 3"),
        3,
        ["min_replies"],
    ),
    "more clients than samples": (("clients = 4", "clients = 500"), 3, ["500 sites", "100"]),
    "more samples than there are": (("train = 100", "train = 9999"), 3, ["1,437", "9,999"]),
    "model needs images": (('"mlp"', '"mpl:net"'), 3, ["mpl:net"]),
    "no such device": (("epochs = 1", 'epochs = 1\ndevice = "cuda:99"'), 3, ["cuda:99"]),
    "path that is not there": (('"digits"', '"npz"\npath = "nowhere.npz"'), 4, ["nowhere.npz"]),
    "scenario that is not there": (
        ("[partition]", '[scenario]\npath = "gone.safetensors"\n[x-partition]'),
        3,
        ["x-partition"],
    ),
}


@pytest.mark.parametrize("case", CONFIGS)
def test_broken_configs(case, cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (old, new), code, parts = CONFIGS[case]
    assert old in GOOD
    (tmp_path / "experiment.toml").write_text(GOOD.replace(old, new, 1))
    result = cli("run", "experiment.toml")
    assert result.code == code
    assert_clear(result)
    for part in parts:
        assert part in result.message
    assert not (tmp_path / "runs").exists(), "a bad config must not leave a run folder"


def test_all_errors_come_at_once(cli, tmp_path):
    text = GOOD.replace('"symmetric"', '"symetric"').replace('"flr"', '"frl"')
    (tmp_path / "experiment.toml").write_text(text.replace("epochs = 1", "epoch = 1"))
    result = cli("check", tmp_path / "experiment.toml")
    assert result.code == 3
    assert "3 errors" in result.message
    assert all(part in result.message for part in ("line 2:", "line 11:", "line 15:"))


def features(path, **arrays):
    np.savez(path, **arrays)


# what is wrong -> (file name, how it is written, parts of the message)
FILES = {
    "not an npz": ("d.npz", lambda p: p.write_bytes(b"hello"), ["d.npz"]),
    "pickled npz": (
        "d.npz",
        lambda p: features(p, x=np.array([{}, {}], dtype=object), y=np.zeros(2)),
        ["d.npz"],
    ),
    "lengths differ": (
        "d.npz",
        lambda p: features(p, x=np.zeros((4, 2)), y=np.zeros(3, int)),
        ["3"],
    ),
    "NaN features": (
        "d.npz",
        lambda p: features(p, x=np.full((4, 2), np.nan), y=np.array([0, 1, 0, 1])),
        ["finite"],
    ),
    "no arrays": ("d.npz", lambda p: features(p, z=np.zeros(3)), ["d.npz"]),
    "label column misspelt": ("d.csv", lambda p: p.write_text("a,labels\n1,x\n2,y\n"), ["labels"]),
    "ragged csv": ("d.csv", lambda p: p.write_text("a,label\n1,x\n2\n"), ["line 3"]),
    "text in a feature": ("d.csv", lambda p: p.write_text("a,label\n1,x\nb,y\n"), ["line 3"]),
    "empty csv": ("d.csv", lambda p: p.write_text(""), ["d.csv"]),
}


@pytest.mark.parametrize("case", FILES)
def test_broken_data_files(case, cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name, write, parts = FILES[case]
    write(tmp_path / name)
    kind = name.split(".")[1]
    text = GOOD.replace(
        'name = "digits"\ntrain = 100\ntest = 50', f'name = "{kind}"\npath = "{name}"'
    )
    (tmp_path / "experiment.toml").write_text(text)
    result = cli("run", "experiment.toml")
    assert result.code == 4
    assert_clear(result)
    for part in parts:
        assert part in result.message


@pytest.mark.parametrize(
    ("args", "code", "part"),
    [
        (["run"], 2, "CONFIG"),
        (["dance"], 2, "dance"),
        (["list", "method"], 2, 'Did you mean "methods"?'),
        (["describe", "frl"], 2, 'Did you mean "flr"?'),
        (["run", "gone.toml"], 3, "gone.toml"),
        (["run", "."], 3, "folder"),
        (["resume", "gone"], 4, "gone"),
        (["compare", "gone"], 4, "gone"),
        (["predict", "gone.safetensors", "digits"], 4, "gone.safetensors"),
        (["demo", "--seed", "-1"], 2, "seed"),
    ],
)
def test_wrong_calls(args, code, part, cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = cli(*args)
    assert result.code == code
    assert part in result.message
    assert "Traceback" not in result.err + result.out


words = st.sampled_from(
    ["rounds", "method", "noise", "kind", "[", "]", "=", '"', "\n", "nan", "-1"]
)
edits = st.tuples(
    st.integers(0, len(GOOD)), st.integers(0, 12), st.one_of(words, st.text(max_size=8))
)


@settings(
    max_examples=250,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(edits, min_size=1, max_size=3))
def test_mangled_configs(cli, tmp_path, changes):
    """Cuts and insertions anywhere in a good config."""
    text = GOOD
    for at, length, new in changes:
        text = text[:at] + new + text[at + length :]
    path = tmp_path / "experiment.toml"
    path.write_bytes(text.encode(errors="surrogatepass"))
    result = cli("check", path)
    assert result.code in (0, 3, 4)
    if result.code:
        assert_clear(result)


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.data())
def test_mangled_data_files(cli, tmp_path, data):
    """Bytes changed, cut or added in npz and CSV files that were good."""
    kind = data.draw(st.sampled_from(["npz", "csv"]))
    path = tmp_path / f"d.{kind}"
    if kind == "npz":
        rng = np.random.default_rng(0)
        np.savez(path, x=rng.normal(size=(12, 2)), y=np.arange(12) % 3)
    else:
        path.write_text("a,b,label\n" + "".join(f"{i},{i * i},c{i % 3}\n" for i in range(12)))
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    path.write_bytes(content)
    config = tmp_path / "experiment.toml"
    old = 'name = "digits"\ntrain = 100\ntest = 50'
    config.write_text(GOOD.replace(old, f'name = "{kind}"\npath = "{path}"'))
    result = cli("check", config)
    assert result.code in (0, 3, 4)
    if result.code:
        assert_clear(result)


def assert_clear(result) -> None:
    """One message that starts with "error:", on standard error, without a traceback or jargon."""
    assert result.err.startswith("error: ")
    assert result.err.count("error: ") == 1
    for word in ("Traceback", "pydantic", "ValidationError", "validation error"):
        assert word not in result.err + result.out
