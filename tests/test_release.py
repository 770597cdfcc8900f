"""What is released: a wheel and an sdist that work with no repository near."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest
from PIL import Image
from sklearn.datasets import load_digits

import flr

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """A folder with both; the wheel is made of the unpacked sdist, by hatchling alone."""
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


@pytest.fixture(scope="module")
def wheel(built) -> Path:
    (found,) = built.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def flr_command(wheel, tmp_path_factory):
    """`flr` of the wheel, in an environment and a folder of its own.

    Its dependencies are those of this environment: their folder comes after its own, so that the
    editable install here is not seen.
    """
    folder = tmp_path_factory.mktemp("fresh")
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], check=True
    )
    (packages,) = (folder / "venv" / "lib").glob("python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    pip = [sys.executable, "-m", "pip", "-q", "install", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--target", str(packages), str(wheel)], check=True, capture_output=True)
    (folder / "empty").mkdir()
    clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "FLR_DATA")}

    def call(*words: str) -> subprocess.CompletedProcess[str]:
        python = str(folder / "venv" / "bin" / "python")
        done = subprocess.run(
            [python, "-m", "flr.cli.main", *words],
            cwd=folder / "empty",
            env=clean | {"COLUMNS": "80"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done

    place = [str(folder / "venv" / "bin" / "python"), "-c", "import flr; print(flr.__file__)"]
    found = subprocess.run(place, cwd=folder, env=clean, capture_output=True, text=True, check=True)
    assert Path(found.stdout.strip()).is_relative_to(packages)
    return folder / "empty", call


def test_the_version_stands_in_one_place(built):
    assert {path.name for path in built.iterdir()} == {
        f"flr-{flr.__version__}-py3-none-any.whl",
        f"flr-{flr.__version__}.tar.gz",
    }
    assert f"version: {flr.__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_the_wheel_has_all_that_commands_need_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as opened:
        names = set(opened.namelist())
    needed = {path for path in (ROOT / "src" / "flr").rglob("*") if path.is_file()}
    inside = {
        path.relative_to(ROOT / "src").as_posix()
        for path in needed
        if "__pycache__" not in path.parts
    }
    assert inside <= names
    assert {name.split("/")[0] for name in names - inside} == {f"flr-{flr.__version__}.dist-info"}
    for kind in ("config/presets/cifar10.toml", "paper/experiments/fig-overview.toml"):
        assert f"flr/{kind}" in names
    said = f"a wheel of {wheel.stat().st_size / 1e6:.1f} MB"
    assert said in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_sdist_has_tests_and_pages_but_no_results(built):
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as opened:
        tops = {name.split("/")[1] for name in opened.getnames() if "/" in name}
        assert not [name for name in opened.getnames() if "/docs/_build" in name]
    assert {"src", "tests", "docs", "constraints.txt", "LICENSE", "CITATION.cff"} <= tops
    assert "results" not in tops


def test_a_figure_is_reproduced_without_the_repository(flr_command):
    folder, call = flr_command
    call("reproduce", "fig-overview", "--out", "paper")
    picture = folder / "paper" / "fig-overview-laptop" / "figure.png"
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_folder_of_images_is_audited_without_the_repository(flr_command):
    folder, call = flr_command
    digits = load_digits()
    (folder / "scans").mkdir()
    rows = [("name", "label")]
    for number in range(120):
        values = (digits.images[number] * 15).astype("uint8")
        Image.fromarray(values).resize((32, 32)).save(folder / "scans" / f"{number:03}.png")
        rows.append((f"{number:03}.png", str(digits.target[number])))
    with (folder / "labels.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    call("audit", "scans", "labels.csv", "--out", "audit")
    page = (folder / "audit" / "audit.html").read_text(encoding="utf-8")
    assert "<script" in page
    assert len((folder / "audit" / "scores.csv").read_text().splitlines()) == 121


def test_a_run_and_a_flower_app_are_made_without_the_repository(flr_command):
    folder, call = flr_command
    (folder / "c.toml").write_text('rounds = 1\nworkers = 1\n[data]\nname = "digits"\ntrain = 60\n')
    call("run", "c.toml", "--out", "run")
    assert (folder / "run" / "report.html").is_file()
    assert (folder / "run" / "model-card.md").is_file()
    call("flower", "init", "wards")
    assert (folder / "wards" / "pyproject.toml").is_file()
