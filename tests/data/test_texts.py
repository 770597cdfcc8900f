"""Texts as inputs: nothing is lost in the packing, and a broken file names its line."""

from __future__ import annotations

import csv
import json
import pickle

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flr.config import parse
from flr.core.errors import ConfigError, DataError
from flr.data.build import subset
from flr.data.dataset import Dataset, LabeledData, Normalization
from flr.data.on_disk import as_numbers
from flr.data.sources.texts import TextFile
from flr.data.texts import Texts
from flr.simulation.build import load_data

WORDS = (
    "gut",
    "schlecht",
    "très bien",
    "悪い",
    "👩‍⚕️ ok",
    "плохо",
    "عادي",
    'a "quoted", one',
    "x\ny",
)


@given(st.lists(st.text(), max_size=20), st.data())
def test_texts_are_what_was_packed(strings, draw):
    texts = Texts.of(strings)
    assert texts[:] == strings
    assert (len(texts), texts.shape) == (len(strings), (len(strings),))
    assert (texts.text.dtype, texts.ends.dtype) == (torch.uint8, torch.int64)
    rows = draw.draw(
        st.lists(st.integers(0, len(strings) - 1), max_size=9) if strings else st.just([])
    )
    expected = [strings[row] for row in rows]
    index = torch.tensor(rows, dtype=torch.int64)
    assert texts[index] == texts[index.numpy()] == texts.take(index)[:] == expected
    assert pickle.loads(pickle.dumps(texts))[:] == strings


@given(st.lists(st.text(), max_size=6), st.lists(st.text(), max_size=6))
def test_identity_is_the_content(one, two):
    assert (Texts.of(one).identity() == Texts.of(two).identity()) == (one == two)


def test_shared_memory():
    texts = Texts.of(WORDS)
    assert texts.share_memory_() is texts
    assert texts.text.is_shared()
    assert texts.ends.is_shared()
    assert texts[:] == list(WORDS)


def dataset_of(strings):
    y = torch.arange(len(strings)) % 2
    data = LabeledData(Texts.of(strings), y, torch.arange(len(y)))
    return Dataset("made", data, data, ("a", "b"), Normalization((), ()))


def test_fingerprint_and_subset():
    data = dataset_of(WORDS)
    assert data.fingerprint == dataset_of(WORDS).fingerprint
    assert data.fingerprint != dataset_of([*WORDS[:-1], "other"]).fingerprint
    few = subset(data, 4, None)
    assert few.train.x[:] == [WORDS[number] for number in few.train.number]


def test_no_network_takes_texts(tmp_path):
    data = dataset_of(WORDS)
    for use in (as_numbers, data.normalize):
        with pytest.raises(ConfigError, match=r"\[data\] backbone"):
            use(data.train.x)
    config = parse({"rounds": 1, "data": {"name": "texts", "path": str(write_csv(tmp_path))}})
    with pytest.raises(ConfigError, match=r"\[data\] backbone"):
        load_data(config)


def write_csv(folder, name="t.csv", bom=""):
    path = folder / name
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(bom)
        writer = csv.writer(file)
        writer.writerow(["id", "text", "label", "ward"])
        for i, text in enumerate(WORDS * 3):
            writer.writerow([i, f"{text} {i}", ("no", "yes")[i % 2], "NS"[i % 3 == 0]])
    return path


def write_json(folder, bom=""):
    path = folder / "t.jsonl"
    rows = [
        {
            "text": f"{text} {i}",
            "label": ("no", "yes")[i % 2],
            "ward": "NS"[i % 3 == 0],
            "more": [1],
        }
        for i, text in enumerate(WORDS * 3)
    ]
    lines = [json.dumps(row, ensure_ascii=bool(i % 2)) for i, row in enumerate(rows)]
    path.write_text(bom + "\r\n".join(lines) + "\n\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("bom", ["", "\ufeff"])
@pytest.mark.parametrize("write", [write_csv, write_json])
def test_both_formats_hold_the_same(tmp_path, write, bom):
    data = TextFile(write(tmp_path, bom=bom), site="ward").load()
    assert data.classes == ("no", "yes")
    assert data.site_names == ("N", "S")
    assert data.normalize == Normalization((), ())
    assert data.input_shape == ()
    assert (len(data.train), len(data.test)) == (21, 6)
    for part in (data.train, data.test):
        for row, number in enumerate(part.number.tolist()):
            assert part.x[row : row + 1] == [f"{WORDS[number % len(WORDS)]} {number}"]
            assert (part.y[row], part.site[row]) == (number % 2, number % 3 == 0)
    assert data.fingerprint == TextFile(write_csv(tmp_path, "other.csv")).load().fingerprint


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(st.lists(st.text(st.characters(exclude_categories=("Cs", "Cc"))), min_size=4, max_size=12))
def test_what_json_lines_hold_comes_back(tmp_path, strings):
    strings = [f"<{text}>" for text in strings]
    rows = [json.dumps({"text": t, "label": i % 2}) for i, t in enumerate(strings)]
    (tmp_path / "t.jsonl").write_text("\n".join(rows), encoding="utf-8")
    data = TextFile(tmp_path / "t.jsonl").load()
    found = dict(zip(data.train.number.tolist(), data.train.x[:], strict=True))
    found |= dict(zip(data.test.number.tolist(), data.test.x[:], strict=True))
    assert [found[i] for i in range(len(strings))] == strings


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", "text,label\na,x\n ,y\n", 'line 3, "text": expected a text; got an empty one'),
        ("t.csv", "text,label\na,x\nb,\n", 'line 3, "label": expected a name'),
        ("t.csv", "text,label\na,x\nb\n", "line 3: expected 2 cells"),
        (
            "t.csv",
            "texts,label\na,x\n",
            'text column "text"; got texts, label. Did you mean "texts"',
        ),
        ("t.csv", "text,lable\na,x\n", 'label column "label".*Did you mean "lable"'),
        ("t.csv", "text,label\n", "header and at least one row"),
        ("t.csv", "text,label\ngröße,x\nähre \udcff,x\n".encode(errors="surrogateescape"), "UTF-8"),
        ("t.csv", "text,label\na,x\nb,x\n", "at least two classes"),
        ("t.jsonl", '{"text": "a", "label": "x"}\n{"text"\n', "line 2: expected one JSON object"),
        ("t.jsonl", '["a", "x"]\n', r"line 1: expected a JSON object \(\{...\}\); got list"),
        ("t.jsonl", '\n\n{"text": 1, "label": "x"}\n', 'line 3: expected text as "text"; got 1'),
        ("t.jsonl", '{"txt": "a", "label": "x"}\n', 'got no such key. Did you mean "txt"'),
        ("t.jsonl", '{"text": "a", "label": true}\n', 'as "label"; got true there'),
        ("t.jsonl", '{"text": "a", "label": null}\n', 'as "label"; got null there'),
        ("t.jsonl", '{"text": " ", "label": "x"}\n', 'line 1, "text": expected a text'),
        ("t.jsonl", '{"text": "\\ud800", "label": "x"}\n', "half of a surrogate pair"),
        ("t.jsonl", "[" * 100_000 + "\n", "line 1: expected one JSON object"),
        ("t.jsonl", "\n", "at least one line of JSON"),
        ("t.jsonl", b"\xff\n", "UTF-8"),
        ("t.doc", "a", "or a .jsonl file"),
    ],
)
def test_broken_files_name_the_line(tmp_path, name, content, message):
    raw = content if isinstance(content, bytes) else content.encode()
    (tmp_path / name).write_bytes(raw)
    with pytest.raises(DataError, match=message):
        TextFile(tmp_path / name).load()


def test_files_that_are_not_there_and_columns_named_twice(tmp_path):
    for name in ("t.csv", "t.jsonl", "t.txt"):
        with pytest.raises(DataError, match="there is none"):
            TextFile(tmp_path / name).load()
    with pytest.raises(DataError, match="Name each of them once"):
        TextFile(write_csv(tmp_path), text="label").load()
    with pytest.raises(DataError, match=r'site column "wards".*Did you mean "ward"'):
        TextFile(write_csv(tmp_path), site="wards").load()


def test_labels_that_are_numbers_sort_as_numbers(tmp_path):
    rows = [json.dumps({"text": f"t{i}", "label": i % 11}) for i in range(22)]
    (tmp_path / "t.jsonl").write_text("\n".join(rows))
    assert TextFile(tmp_path / "t.jsonl").load().classes == tuple(map(str, np.arange(11)))
