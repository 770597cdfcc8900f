"""The third-party method of the how-to, really installed: from its code blocks, without pip."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

PAGE = "docs/how-to/add-a-method.md"

DRIVER = """
import contextlib, io, json, sys
from flr.cli.main import main

def command(*words):
    sys.argv = ["flr", *words]
    out = io.StringIO()
    code = 0
    with contextlib.redirect_stdout(out):
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
    return [code, out.getvalue()]

if __name__ == "__main__":
    import flr.cli.main as cli
    from rich.console import Console
    cli.console = Console(file=None, highlight=False, width=200)
    print(json.dumps([command(*words) for words in json.loads(sys.argv[1])]))
"""

CONFIG = """
rounds = 2
workers = 1
method = "calm"
[data]
name = "digits"
train = 200
test = 100
[partition]
kind = "iid"
clients = 4
[noise]
kind = "symmetric"
floor = 0.3
[train]
epochs = 1
"""


@pytest.fixture(scope="module")
def installed(blocks, tmp_path_factory) -> Path:
    """A folder for PYTHONPATH that looks like an installed package."""
    site = tmp_path_factory.mktemp("site")
    module, _ = blocks(PAGE, "python")
    (project,) = (tomllib.loads(text) for text in blocks(PAGE, "toml"))
    points = project["project"]["entry-points"]["flr"]
    for name in points.values():
        (site / f"{name}.py").write_text(module)
    info = site / "flr_calm-0.1.0.dist-info"
    info.mkdir()
    named = "".join(f"{key} = {value}\n" for key, value in points.items())
    (info / "entry_points.txt").write_text(f"[flr]\n{named}")
    facts = project["project"]
    text = f"Metadata-Version: 2.1\nName: {facts['name']}\nVersion: {facts['version']}\n"
    (info / "METADATA").write_text(text)
    return site


@pytest.fixture(scope="module")
def answers(installed, tmp_path_factory):
    """Exit code and output of some commands, in a process that sees the package."""
    folder = tmp_path_factory.mktemp("run")
    (folder / "c.toml").write_text(CONFIG)
    (folder / "driver.py").write_text(DRIVER)
    commands = {
        "list": ["list", "methods", "--json"],
        "describe": ["describe", "calm"],
        "wrong": ["check", "c.toml", "--set", "method.lamb=1"],
        "alone": ["run", "c.toml", "--out", "alone"],
        "stack": ["run", "c.toml", "--set", 'method=["flr", "calm"]', "--out", "stack"],
    }
    done = subprocess.run(
        [sys.executable, "driver.py", json.dumps(list(commands.values()))],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    results = dict(zip(commands, json.loads(done.stdout), strict=True))
    return results, done.stderr, folder


def test_it_is_short(blocks):
    module = blocks(PAGE, "python")[0]
    assert len([line for line in module.splitlines() if line.strip()]) <= 20


def test_it_is_listed(answers):
    code, out = answers[0]["list"]
    assert code == 0
    found = {entry["name"]: entry for entry in json.loads(out)}
    assert found["calm"]["settings"] == {"lam": 0.01}
    assert {"fedavg", "flr"} <= set(found)


def test_it_is_described(answers):
    code, out = answers[0]["describe"]
    assert code == 0
    assert "L = CE + lam * mean_i mean_c z_ic^2" in out
    assert "lam = 0.01" in out


def test_a_wrong_setting_is_found_as_printed(answers, root):
    results, errors, _ = answers
    said = 'method.lamb is not an option of method "calm". Did you mean "lam"?'
    assert results["wrong"][0] == 3
    assert said in errors
    assert said in (root / PAGE).read_text()


@pytest.mark.parametrize(("name", "label"), [("alone", "calm"), ("stack", "flr+calm")])
def test_it_runs_alone_and_in_a_stack(name, label, answers):
    results, errors, folder = answers
    assert results[name][0] == 0, errors
    summary = json.loads((folder / name / "summary.json").read_text())
    assert summary["method"] == label
    assert summary["rounds"] == 2


def keys(value: object) -> set[str]:
    if isinstance(value, list):
        return set().union(*map(keys, value))
    if not isinstance(value, dict):
        return set()
    own = {key for key in value if not key.isdigit()}
    return own.union(*map(keys, value.values()))


def test_the_run_folder_page_names_every_file_and_key(answers, root):
    folder = answers[2] / "stack"
    page = (root / "docs/reference/run-folder.md").read_text()
    for path in folder.iterdir():
        assert f"`{path.name}`" in page or f"`{path.name}/`" in page, path.name
    found = keys(json.loads((folder / "summary.json").read_text()))
    for name in ("metrics.jsonl", "clients.jsonl"):
        for line in (folder / name).read_text().splitlines():
            found |= keys(json.loads(line))
    words = {word for text in page.split("`")[1::2] for word in text.split(".")}
    assert found <= words, found - words
