"""What a project shows to those who join: commands, citation, workflows, a container for a site."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml

import flr

ROOT = Path(__file__).resolve().parents[2]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
TARGETS = re.search(r"^\.PHONY: (.*)$", MAKEFILE, re.M)[1].split()


def make(*words: str) -> str:
    command = ["make", "--no-print-directory", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def test_make_alone_lists_every_target():
    assert [line.split()[1] for line in make().splitlines()] == TARGETS


@pytest.mark.parametrize("target", TARGETS)
def test_every_target_has_commands_and_is_named_for_contributors(target):
    assert make("-n", target)
    contributing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert target == "help" or f"`make {target}`" in contributing


def test_the_readme_says_the_main_things_on_two_screens():
    before, found, _ = (ROOT / "README.md").read_text(encoding="utf-8").partition("\n## Read on")
    assert found
    assert len(before.splitlines()) <= 80
    for door in (ROOT / "docs" / "start").glob("*.md"):
        assert f"(docs/start/{door.name})" in before


def test_files_of_the_project_can_be_read():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert str(cited["version"]) == flr.__version__
    workflows = {
        path.stem: yaml.safe_load(path.read_text(encoding="utf-8"))
        for path in (ROOT / ".github" / "workflows").glob("*.yml")
    }
    assert ".ci/run" in str(workflows["ci"]["jobs"])
    assert workflows["publish"]["jobs"]["publish"]["permissions"] == {"id-token": "write"}


def test_a_site_in_a_container_is_no_root_and_writes_to_its_volume_alone():
    stage = (ROOT / "Dockerfile").read_text(encoding="utf-8").split("\nFROM ")[-1]
    assert re.search(r"^USER \d+$", stage, re.M)
    parts = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))["services"]
    assert len([name for name in parts if name.startswith("site-")]) == 3
    for part in parts.values():
        assert part["read_only"]
        assert part["cap_drop"] == ["ALL"]
        assert [volume.split(":")[1] for volume in part["volumes"]] == ["/var/lib/flr"]
