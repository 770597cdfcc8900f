"""Configs that cannot run: one message that names every mistake, its place and the way out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flr.config import load, parse
from flr.config.errors import expected
from flr.core.errors import ConfigError

BROKEN = {
    "name": (
        'rounds = 3\n\n[noise]\nkind = "symetric"\n',
        ['line 4: [noise] kind = "symetric" is not known. Did you mean "symmetric"? Known: asymm'],
    ),
    "key": (
        "rounds = 3\n[train]\nmomentun = 0.9\n",
        ['line 3: [train] momentun is not known. Did you mean "momentum"?', "Correct or remove it"],
    ),
    "option": (
        'rounds = 3\n[noise]\nkind = "symmetric"\nflor = 0.1\n',
        ['line 4: [noise] flor is not an option of noise "symmetric"', 'mean "floor"?'],
    ),
    "no options at all": (
        "rounds = 3\n[noise]\nfloor = 0.1\n",
        ['line 3: [noise] floor is not an option of noise "none". It has none.'],
    ),
    "key before its section": (
        "rounds = 3\nlr = 0.1\n",
        ["line 2: lr is not known here. It belongs in [train]: move it there."],
    ),
    "key after a section": (
        "rounds = 3\n[train]\nworkers = 1\n",
        ["line 3: [train] workers is not known here", "at the top, before the first [section]"],
    ),
    "missing": (
        "seed = 1\n",
        ["rounds is missing. Expected a whole number, at least 1: write it."],
    ),
    "missing option": (
        'rounds = 3\n[data]\nname = "npz"\n',
        ["line 2: [data] path is missing. Expected a path in quotes"],
    ),
    "text for a number": (
        'rounds = "5"\n',
        ['line 1: rounds = "5" should be a whole number, at least 1. Change it.'],
    ),
    "truth for a number": (
        "rounds = 1\n[train]\nlr = true\n",
        ["[train] lr = true should be a number, above 0. Change it, or leave it out for 0.1."],
    ),
    "fraction for a count": ("rounds = 5.0\n", ["rounds = 5.0 should be a whole number"]),
    "number for truth": (
        "rounds = 1\ntrain.keep_optimizer = 1\n",
        ["line 2: [train] keep_optimizer = 1 should be true or false"],
    ),
    "bounds": (
        "rounds = 1\ndrop = 1.0\n[train]\nparticipation = 0\n",
        [
            "line 2: drop = 1.0 should be a number, at least 0 and below 1",
            "line 4: [train] participation = 0 should be a number, above 0 and at most 1",
        ],
    ),
    "one of several": (
        'rounds = 1\ntrain = { optimizer = "adma", amp = "bf61" }\n',
        [
            'line 2: [train] optimizer = "adma" is not known. Did you mean "adam"?',
            'line 2: [train] amp = "bf61" should be "none" or "bf16". Did you mean "bf16"?',
        ],
    ),
    "list for a table": ("rounds = 1\ntrain = [1]\n", ["line 2: train = [1] should be a table"]),
    "number for a name": (
        "rounds = 1\nmethod = 3\naggregate = { name = 1 }\n",
        ["line 2: method = 3 should be a name in quotes", "line 3: aggregate.name = 1 should be"],
    ),
    "tracker": (
        'rounds = 1\ntrackers = ["wand"]\n',
        ['trackers[0] = "wand" is not known. Did you mean "wandb"?'],
    ),
    "union": (
        'rounds = 1\n[noise]\nkind = "asymmetric"\nmap = 3\n',
        ["line 4: [noise] map = 3 should be text in quotes or a table or a list, each item"],
    ),
    "methods": (
        'rounds = 1\nmethod = [\n  "flr",\n  { name = "picky", strength = -1, modes = "x" },\n'
        '  "fedavgg",\n]\n',
        [
            "has 3 errors:",
            "line 4: method[1].strength = -1 should be a number, at least 0",
            'line 4: method[1].modes is not an option of method "picky". Did you mean "mode"?',
            'line 5: method[2] = "fedavgg" is not known. Did you mean "fedavg"?',
        ],
    ),
    "no method": ("rounds = 1\nmethod = []\n", ["method = [] should name at least one method"]),
    "alias": (
        'rounds = 1\n[method]\nname = "slr"\nalpha = 0.5\n',
        ['line 4: slr fixes alpha = 1.0; use method "flr" to choose it.'],
    ),
    "refused by the entry itself": (
        'rounds = 1\nmethod = { name = "picky", steps = 13 }\n',
        ["line 2: steps = 13 brings bad luck. Use 12."],
    ),
    "refused by the method": (
        'rounds = 100\nmethod = "picky"\n',
        ["line 2: picky runs at most 99 rounds: lower rounds."],
    ),
    "two owners": (
        'rounds = 1\nmethod = ["loud", "quiet"]\n',
        ["line 2: Loud and Quiet both define loss(): choose one."],
    ),
    "one class twice": (
        'rounds = 1\nmethod = ["flr", "local"]\n',
        ["line 2: FLR is in the stack twice (perhaps by an alias): keep one."],
    ),
    "too few clients": (
        "rounds = 1\nmin_replies = 6\n[partition]\nclients = 21\n",
        [
            "line 2: min_replies = 6 is more than the 5 asked in a round (participation 0.25 of 21",
            "Use at most 5, or a higher [train] participation.",
        ],
    ),
    "scenario twice": (
        'rounds = 1\nscenario.path = "s.safetensors"\n[noise]\nkind = "none"\n',
        ["line 2: [scenario] path", "[noise] is given too. Remove one of them."],
    ),
    "selection without labels": (
        'rounds = 1\n[eval]\nselect = "validation"\npatience = 2\n',
        [
            'line 3: [eval] select = "validation" needs labels that no site trains on, and none',
            "Add validation = 0.1 to [eval], or remove select.",
        ],
    ),
    "patience without selection": (
        'rounds = 1\n[eval]\nvalidation = 0.1\npatience = 2\nmetrics = ["f1"]\n',
        [
            "line 4: [eval] patience = 2 is counted in rounds without a better score, which select",
            'line 5: [eval] metrics = ["f1"]',
            '"macro-f1"',
        ],
    ),
    "device": (
        'rounds = 1\ntrain.device = "tpu"\n',
        ['line 2: [train] device = "tpu" is not on this machine. Use one of: auto, cpu'],
    ),
    "model import": (
        'rounds = 1\ntrain.model = "no_such_module:make"\n',
        ["line 2: [train] model", "cannot be imported", "PYTHONPATH"],
    ),
    "model signature": (
        'rounds = 1\ntrain.model = "json:loads"\n',
        ["line 2: [train] model", "should take (input_shape, classes)"],
    ),
    "model is no function": ('rounds = 1\ntrain.model = "sys:path"\n', ["it is no function"]),
    "infinite": (
        "rounds = 1\n[train]\nlr = inf\n",
        ["line 3: [train] lr is inf. Expected a finite"],
    ),
    "not a number": ("rounds = 1\ndrop = nan\n", ["line 2: drop is nan. Expected a finite number"]),
    "huge": (f"rounds = {10**30}\n", ["line 1: rounds should have at most 64 bits. Shorten it."]),
    "date": ("rounds = 1979-05-27\n", ["line 1: rounds is a date. Expected text, a number"]),
    "thousands of digits": (f"rounds = {'1' * 5000}\n", ["64 bits", "thousands of digits"]),
    "deep list": ("rounds = " + "[" * 5000 + "]" * 5000 + "\n", ["nests too deeply. Flatten it."]),
    "deep table": ("rounds = 1\n" + "a." * 300 + "a = 1\n", ["line 2: a.a.a", "nests too deeply"]),
    "syntax": ("rounds = 3\n[train\n", ["line 2, column 7: Expected TOML such as rounds = 60"]),
    "unclosed": ("rounds = [1,\n", ["end of file: Expected TOML"]),
    "key twice": ("rounds = 3\nrounds = 4\n", ["line 2, column 11: A key or table is given twice"]),
    "table twice": (
        "[train]\n[eval]\n[train]\n",
        ["line 3, column 7: A key or table is given twice"],
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_message(case: str, tmp_path: Path) -> None:
    text, wanted = BROKEN[case]
    path = tmp_path / "experiment.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(path)
    message = str(caught.value)
    assert message.startswith(str(path))
    for part in wanted:
        assert part in message


def test_all_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "experiment.toml"
    path.write_text('seed = -1\nmin_replies = 9\n[noise]\nkind = "symetric"\n[eval]\nevery = -1\n')
    with pytest.raises(ConfigError) as caught:
        load(path, ["workers=0"])
    head, *rest = str(caught.value).splitlines()
    assert head == f"{path} has 6 errors:"
    starts = ["line 1: seed", "line 2: min_replies", "line 4: [noise]", "line 6: [eval]"]
    assert all(line.startswith(f"  {start}") for line, start in zip(rest, starts, strict=False))
    assert {line.split()[0] for line in rest[4:]} == {"rounds", "--set"}


@pytest.mark.parametrize(
    "broken",
    [
        {"partition": {"clients": 0}},
        {"partition": {"kind": "idd"}},
        {"train": {"participation": 2.0}},
        {"train": 3},
        {"scenario": {"path": 3}},
        {"train": {"participation": float("inf")}},
    ],
)
def test_a_conflict_with_a_broken_key_is_not_reported(broken: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="has 1 error") as caught:
        parse({"rounds": 1, "min_replies": 20, **broken})
    assert "min_replies" not in str(caught.value)


def test_a_method_is_not_asked_about_broken_keys_but_despite_unknown_ones() -> None:
    long = {"rounds": 200, "method": "picky"}
    with pytest.raises(ConfigError, match="has 2 errors") as caught:
        parse({**long, "sed": 3})
    assert "picky runs at most" in str(caught.value)
    with pytest.raises(ConfigError, match="has 1 error"):
        parse({**long, "seed": "3"})


def test_many_errors_are_counted_and_cut() -> None:
    with pytest.raises(ConfigError, match="has 61 errors") as caught:
        parse({f"key{number}": "x" * 1000 for number in range(60)})
    assert str(caught.value).endswith("and 21 more")


def test_tracker_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r'pip install "flr\[tensorboard\]"'):
        parse({"rounds": 1, "trackers": ["tensorboard"]})


@pytest.mark.parametrize(
    ("override", "wanted"),
    [
        ("noise.kind=symetric", '--set noise.kind: [noise] kind = "symetric" is not known.'),
        ("train.lr=fast", '--set train.lr: [train] lr = "fast" should be a number'),
        ("train", "--set train: has no '='. Write --set key=value"),
        ("=3", "--set =3: is not a key"),
        ("a b=3", "--set a b=3: is not a key"),
        ("seed=3\nrounds", "--set seed: seed = "),
        ("a=1\nb=2", "--set a: a is not known"),
        ("train.batch=[1", "the value is not valid TOML"),
        ("rounds.x=1", "lies below a key that is no table"),
        ("method.lam=1", "expected an item's number below 1"),
        ("method.7.lam=1", "expected an item's number below 1"),
        ("train.lr=inf", "--set train.lr: [train] lr is inf"),
        ("train.device=\udce9", "--set train.device: [train] device is not valid Unicode"),
        ("\udce9=1", "--set \\udce9=1: is not a key"),
    ],
)
def test_overrides_say_so(override: str, wanted: str, tmp_path: Path) -> None:
    path = tmp_path / "experiment.toml"
    path.write_text('rounds = 3\nmethod = ["flr"]\n[noise]\nkind = "none"\n')
    with pytest.raises(ConfigError, match="has 1 error") as caught:
        load(path, [override])
    assert wanted in str(caught.value)
    str(caught.value).encode()


def test_unreadable_files(tmp_path: Path) -> None:
    binary, large = tmp_path / "binary.toml", tmp_path / "large.toml"
    binary.write_bytes(b"rounds = 1\n# caf\xe9\n")
    large.write_bytes(b"#" * 2_000_000)
    cases = {
        tmp_path / "none.toml": "there is none. Check the path.",
        tmp_path: "it is a folder. Name the file in it.",
        binary: "expected UTF-8 text; line 2 has other bytes. Save it as UTF-8.",
        large: "it has over 1,000,000 bytes",
        Path("a\0b"): "cannot be read",
        binary / "x": "cannot be read",
    }
    for path, wanted in cases.items():
        with pytest.raises(ConfigError) as caught:
            load(path)
        assert wanted in str(caught.value)


def test_python_objects_that_are_no_settings() -> None:
    with pytest.raises(ConfigError, match=r"train is a object\. Expected text"):
        parse({"rounds": 1, "train": object()})
    with pytest.raises(ConfigError, match="expected a table of settings, got list"):
        parse([1])  # type: ignore[arg-type]
    circle: dict[str, object] = {"rounds": 1}
    circle["train"] = circle
    with pytest.raises(ConfigError, match="nests too deeply"):
        parse(circle)


def test_words_for_any_annotation() -> None:
    assert expected(list) == "a list"
    assert expected(list[int]) == "a list, each item a whole number"
    assert expected(dict[str, int]) == "a table"
    assert expected(str | None) == "text in quotes"
    assert expected(Any) == "a value"
