"""Lines of keys in every form TOML knows."""

from __future__ import annotations

import tomllib
from typing import Any

import tomli_w
from hypothesis import given, settings
from hypothesis import strategies as st

from flr.config.toml_lines import Place, find_lines

TEXT = '''\
seed = 1  # [not.a.table]
"quoted key" = 1.5
method = [
    "flr",  # a comment with ] and "
    { name = "fedprox", mu = 0.1 },
]
text = """
a = 1
[b]
\\""" still \\\\"""
plain = \'\'\'
[c]\'\'\'
a.b . "c.d" = 1979-05-27 07:32:00

[train]
lr = "x = [1, 2]"
model = { name = "mlp", deep = { er = [[1], [2, { x = 3 }]] } }
  [ train . more ]
  one = 'it''s'

[[site]]
name = "a"
[site.sub]
key = 1
[[site]]
name = "b"
[[site.list]]
x = 1
[[site.list]]
x = 2
'''.replace("'it''s'", "'its'")


def test_each_form() -> None:
    lines = find_lines(TEXT)
    tomllib.loads(TEXT)
    assert lines == {
        ("seed",): 1,
        ("quoted key",): 2,
        ("method",): 3,
        ("method", 0): 4,
        ("method", 1): 5,
        ("method", 1, "name"): 5,
        ("method", 1, "mu"): 5,
        ("text",): 7,
        ("plain",): 11,
        ("a",): 13,
        ("a", "b"): 13,
        ("a", "b", "c.d"): 13,
        ("train",): 15,
        ("train", "lr"): 16,
        ("train", "model"): 17,
        ("train", "model", "name"): 17,
        ("train", "model", "deep"): 17,
        ("train", "model", "deep", "er"): 17,
        ("train", "model", "deep", "er", 0): 17,
        ("train", "model", "deep", "er", 0, 0): 17,
        ("train", "model", "deep", "er", 1): 17,
        ("train", "model", "deep", "er", 1, 0): 17,
        ("train", "model", "deep", "er", 1, 1): 17,
        ("train", "model", "deep", "er", 1, 1, "x"): 17,
        ("train", "more"): 18,
        ("train", "more", "one"): 19,
        ("site",): 21,
        ("site", 0): 21,
        ("site", 0, "name"): 22,
        ("site", 0, "sub"): 23,
        ("site", 0, "sub", "key"): 24,
        ("site", 1): 25,
        ("site", 1, "name"): 26,
        ("site", 1, "list"): 27,
        ("site", 1, "list", 0): 27,
        ("site", 1, "list", 0, "x"): 28,
        ("site", 1, "list", 1): 29,
        ("site", 1, "list", 1, "x"): 30,
    }


def test_empty_files_and_windows_line_ends() -> None:
    assert find_lines("") == {}
    assert find_lines("# only a comment") == {}
    assert find_lines("a = 1\r\n\r\n[b]\r\nc = 2") == {
        ("a",): 1,
        ("b",): 3,
        ("b", "c"): 4,
    }


def places(value: Any, at: Place = ()) -> set[Place]:
    items: list[tuple[str | int, Any]] = []
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))
    found = {(*at, key) for key, _ in items}
    return found.union(*(places(inner, (*at, key)) for key, inner in items))


LEAVES = (
    st.booleans() | st.integers(-9, 9) | st.floats(allow_nan=False) | st.text() | st.datetimes()
)
TREES = st.recursive(
    LEAVES,
    lambda t: st.lists(t, max_size=3) | st.dictionaries(st.text(), t, max_size=3),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.text(), TREES, max_size=4), st.booleans())
def test_every_place_of_a_generated_file_has_a_line(tree: dict[str, Any], multiline: bool) -> None:
    text = tomli_w.dumps(tree, multiline_strings=multiline)
    lines = find_lines(text)
    assert set(lines) == places(tomllib.loads(text))
    assert all(1 <= line <= text.count("\n") for line in lines.values())
