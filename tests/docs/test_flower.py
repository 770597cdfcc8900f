"""The pages on Flower say what the code says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer

from flr.cli import flower, site
from flr.config.policy import Policy
from flr.flower.new_app import write_app
from flr.flower.settings import Flower
from flr.flower.site_config import KEYS
from flr.report import describe

REFERENCE = "docs/reference/flower.md"
HOW = "docs/how-to/run-on-flower.md"


def test_the_run_config_has_these_keys_and_defaults(tables):
    documented = {key: cells[1] for key, cells in tables(REFERENCE)["Run config"].items()}
    expected = {}
    for field in Flower.model_fields.values():
        default = "" if field.default == () else field.default  # lists are text there
        expected[field.alias] = f"`{describe.toml_value(default)}`"
    assert documented == expected


def test_the_node_config_has_these_keys(tables, tmp_path):
    assert tuple(tables(REFERENCE)["Node config"]) == KEYS
    readme = (write_app(tmp_path / "wards") / "README.md").read_text()
    assert re.findall(r"^\| `(\S+)` \|", readme.split("`--node-config`")[1], re.M) == list(KEYS)


def test_a_policy_has_these_keys(tables):
    assert list(tables(REFERENCE)["Policy"]) == list(Policy.model_fields)


@pytest.mark.parametrize("commands", [flower, site])
def test_every_command_is_in_the_reference_with_its_options(commands, root):
    page = (root / "docs/reference/cli.md").read_text()
    group, above = typer.main.get_command(commands.app), commands.__name__.split(".")[-1]
    for name, command in group.commands.items():
        (row,) = re.findall(rf"^\| `flr {above} {name} .*$", page, re.M)
        for option in command.params:
            if option.param_type_name == "option" and option.name != "help":
                assert option.opts[0] in row


@pytest.mark.parametrize("page", [HOW, "README of the app"])
def test_nothing_is_started_that_reports_or_installs(page: str, root: Path, tmp_path: Path):
    text = (root / HOW if page == HOW else write_app(tmp_path / "wards") / "README.md").read_text()
    started = re.findall(r"^.*flower-superlink --.*$", text, re.M)
    assert started
    assert all("--disable-runtime-dependency-installation" in line for line in started)
    for switch in ("FLWR_TELEMETRY_ENABLED=0", "FLWR_DISABLE_UPDATE_CHECK=1"):
        assert switch in text
