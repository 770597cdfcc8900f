"""Dependency floors: none admits a version with a hole that is known and mended."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[2]

# the first version without each, as the advisories say on 2026-11-18; CVE-2025-3000 of torch.jit,
# which has no mended version of its own, is not among them: flr does not use torch.jit
HOLES = {
    "filelock": ("3.20.3", "CVE-2025-68146, CVE-2026-22701: a link in place of the lock"),
    "jinja2": ("3.1.6", "CVE-2025-27516 and before: ways out of the sandbox"),
    "pillow": ("12.3", "CVE-2026-25990, -40192, -55379 and before: memory, bombs"),
    "pip": ("26.1.2", "CVE-2026-1703, -6357, -8643: a wheel writes outside its folder"),
    "pydantic": ("2.4", "CVE-2024-3772: endless matching"),
    "pydicom": ("3.0.2", "CVE-2026-32711: a DICOMDIR names files outside its folder"),
    "pytest": ("9.0.3", "CVE-2025-71176: a folder in /tmp that others can make"),
    "scikit-learn": ("1.5", "CVE-2024-5206: texts are kept in a vectorizer"),
    "torch": ("2.10", "CVE-2025-32434, CVE-2026-24747: code in files of weights alone"),
    "transformers": ("5.10", "CVE-2026-4372, -5241, -9856: code and paths in a model's folder"),
}


def requirements() -> dict[str, Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    named = map(Requirement, [*project["dependencies"], *(name for e in extras for name in e)])
    return {one.name: one for one in named if one.name != project["name"]}


def floor(one: Requirement) -> Version:
    return max(Version(part.version) for part in one.specifier if part.operator == ">=")


def test_every_dependency_has_a_floor():
    assert all(floor(one) for one in requirements().values())


@pytest.mark.parametrize("name", HOLES)
def test_no_floor_admits_a_known_hole(name):
    mended, hole = HOLES[name]
    assert floor(requirements()[name]) >= Version(mended), hole


def test_tested_versions_are_above_the_floors():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    tested = dict(line.split("==") for line in lines if "==" in line)
    ours = requirements()
    below = [n for n, v in tested.items() if n in ours and Version(v) < floor(ours[n])]
    assert not below
