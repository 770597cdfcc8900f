"""The how-to that compares methods, followed from the data to the LaTeX table, with less of all."""

from __future__ import annotations

import csv
import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic_core import PydanticUndefined

from flr.core import registry
from flr.report import describe
from flr.study import api
from flr.study.study_file import Study

PAGE = "docs/how-to/compare-methods.md"
REFERENCE = "docs/reference/study.md"
MOST = 40  # lines besides the data


@pytest.fixture
def followed(blocks, tmp_path, monkeypatch):
    """A folder with the page's files, and one seed of two rounds."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("FLR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(api, "processors", lambda: 1)
    for kind in registry.KINDS:  # what is loaded first meanwhile would be lost afterwards
        registry.entries(kind)
    monkeypatch.setattr(registry, "_entries", dict(registry._entries))
    data, calm, compare = blocks(PAGE, "python")
    exec(compile(data, PAGE, "exec"), {})  # noqa: S102
    Path("calm.py").write_text(calm)
    (study,) = blocks(PAGE, "toml")
    short = study.replace("[1, 2, 3]", "[1]").replace("rounds = 10", "rounds = 2")
    Path("study.toml").write_text(short)
    Path("compare.py").write_text(compare)
    importlib.invalidate_caches()
    yield tmp_path
    sys.modules.pop("calm", None)


def test_it_is_short(blocks):
    texts = [*blocks(PAGE, "python")[1:], *blocks(PAGE, "toml"), blocks(PAGE, "sh")[0]]
    lines = [line for text in texts for line in text.splitlines() if line.strip()]
    assert len(lines) <= MOST


def test_it_gives_what_it_promises(followed, blocks, root, cli):
    script = Path("compare.py").read_text().replace("jobs=2", "jobs=1")
    exec(compile(script, PAGE, "exec"), {"__name__": "__main__"})  # noqa: S102
    latex = Path("table.tex").read_text()
    assert "Calm &" in latex
    assert r"\textbf{" in latex  # of one seed there is no interval
    table = (root / PAGE).read_text().split("In `sweeps/study/`:")[1]
    for name in ("index.html", "runs.csv", "table.tex", "curves.pdf", "forest.pdf"):
        assert f"`{name}`" in table
        assert Path("sweeps/study", name).exists()
    for name in ("differences", "ranks", "measures"):
        assert f"`{name}.*`" in table
        assert Path(f"sweeps/study/{name}.csv").exists()
    runs = list(csv.DictReader(Path("sweeps/study/runs.csv").read_text().splitlines()))
    assert len(runs) == 6 * 2
    wrong = {run["setting"]: float(run["noise.realised"]) for run in runs}
    assert wrong == pytest.approx({"two of ten wrong": 0.2, "four of ten wrong": 0.4}, abs=0.02)
    said = next(text for text in (root / PAGE).read_text().split("`") if "flr compare" in text)
    folders = [str(path) for path in Path("sweeps/runs").glob("[!.]*")]
    words = said.replace("sweeps/runs/*", " ".join(sorted(folders))).split()[1:]
    done = cli(*words)
    assert done.code == 0, done.err
    assert "high = 0.4" in done.out
    assert Path("curves.pdf").read_bytes().startswith(b"%PDF")


def test_a_method_that_only_the_script_has_reaches_every_job(followed):
    code = Path("calm.py").read_text() + Path("compare.py").read_text().replace("import calm\n", "")
    few = ['["calm", "fedavg"]', "[settings.one]"]
    study = Path("study.toml").read_text().split("method =")[0]
    Path("study.toml").write_text(f'{study}method = {few[0]}\n{few[1]}\nnoise = "symmetric"\n')
    Path("all.py").write_text(code)
    done = subprocess.run(
        [sys.executable, "all.py"], env=os.environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Calm" in done.stdout


def test_every_key_of_a_study_is_in_the_reference(tables):
    found = {key: cells[1] for key, cells in tables(REFERENCE)["Study"].items()}
    expected = {}
    for name, field in Study.model_fields.items():
        default = field.get_default(call_default_factory=True)
        assert default is not PydanticUndefined
        shown = "{}" if default == {} else describe.toml_value(default)
        expected[name] = "–" if default is None else f"`{shown}`"
    assert found == expected
