"""Every public name is on the page of the Python interface, with an example that runs."""

from __future__ import annotations

import importlib
import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import flr
from flr import plugin

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "reference" / "api.md").read_text(encoding="utf-8")
LISTED = re.findall(r"^\.\. auto(?:function|class|exception):: ([\w.]+)$", PAGE, re.M)
PUBLIC = [f"flr.{name}" for name in flr.__all__]
# What the engine makes and a method is given: no example.
GIVEN = {"Client", "Server", "Site", "Batch", "Task", "Reply", "SamplePredictions"}
# Their example is that of the module, which test_plugins.py runs.
IN_ITS_EXAMPLE = set(re.findall(r"plugin\.(\w+)\(", plugin.__doc__ or ""))

# In a process of its own: an example registers a method, which other tests would then meet.
RUN = """
import doctest, json, sys
import flr

flr.run({"rounds": 1, "partition": {"kind": "iid", "clients": 4}}, out="runs/flr-1")
told = {}
for name in json.loads(sys.argv[1]):
    module, _, attribute = name.rpartition(".")
    __import__(module)
    found = getattr(sys.modules[module], attribute)
    told[name] = [0, 0]
    for test in doctest.DocTestFinder(recurse=False).find(found, name, globs={"flr": flr}):
        done = doctest.DocTestRunner().run(test, out=sys.stderr.write)
        told[name] = [done.attempted, done.failed]
print(json.dumps(told))
"""


def named(name: str) -> object:
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


def last(name: str) -> str:
    return name.rpartition(".")[2]


def test_every_public_name_is_on_the_page_and_in_its_table():
    assert set(PUBLIC) <= set(LISTED)
    assert set(re.findall(r"^\| \[`([\w.]+)`\]", PAGE, re.M)) == set(PUBLIC)


@pytest.mark.parametrize("name", plugin.__all__)
def test_what_authors_of_plugins_need_is_on_the_page(name):
    found = getattr(plugin, name)
    shown = any(named(listed) is found for listed in LISTED)
    assert shown or f"`flr.plugin.{name}`" in PAGE


@pytest.mark.parametrize("name", LISTED)
def test_its_docstring_says_what_it_takes(name):
    found = named(name)
    text = inspect.getdoc(found) or ""
    assert text
    if last(name) in GIVEN:
        return
    assert "Example:" in text
    protocol = getattr(found, "_is_protocol", False)  # nobody calls it
    if not protocol and (inspect.isfunction(found) or "__init__" in vars(found)):
        asked = [word for word in inspect.signature(found).parameters if word != "self"]
        assert "Args:" in text
        for word in asked:
            assert re.search(rf"^ +{word}: ", text, re.M), word


@pytest.fixture(scope="module")
def examples(tmp_path_factory) -> tuple[dict[str, list[int]], str]:
    """Of each name: how many lines were run, and how many went otherwise; and what was said."""
    done = subprocess.run(
        [sys.executable, "-c", RUN, json.dumps(LISTED)],
        cwd=tmp_path_factory.mktemp("examples"),
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


@pytest.mark.parametrize("name", [name for name in LISTED if last(name) not in GIVEN])
def test_its_example_runs(name, examples):
    told, said = examples
    attempted, failed = told[name]
    assert attempted or last(name) in IN_ITS_EXAMPLE, "there is no example"
    assert not failed, said
