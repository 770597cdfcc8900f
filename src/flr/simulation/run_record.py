"""`run.json` of a run folder: what a run was made with, and which files it vouches for."""

from __future__ import annotations

import json
import logging
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from flr.config import Config
from flr.config.errors import show
from flr.config.overrides import dotted
from flr.config.who_named_it import named_by_others
from flr.core import bits, seal
from flr.core.errors import ConfigError, DataError
from flr.models import model_file
from flr.models.embedding import Embedder
from flr.report import html, model_card, summary
from flr.report.recorder import CLIENTS, METRICS

log = logging.getLogger("flr")

CONFIG = "config.toml"
FIXED = (CONFIG, "scenario.safetensors")  # written before the first round
RESULTS = (
    *(METRICS, CLIENTS, model_file.NAME, model_card.NAME),
    *(summary.NAME, html.CURVES, html.NAME),
)
# What may change between two parts of a run: more rounds, and where and how it is computed. The
# scenario has a fingerprint of the data, so that they may lie elsewhere.
FREE = (
    *("rounds", "workers", "checkpoint_every", "trackers"),
    *("train.device", "train.devices", "data.path"),
)


def made_with(config: Config) -> dict[str, str]:
    """What the last bits of a result depend on besides config and data."""
    return {
        "bits": bits.now(),
        "flr": sys.modules["flr"].__version__,  # importing it would reach all layers
        "torch": torch.__version__,
        "numpy": np.__version__,
        "cpu": torch.backends.cpu.get_cpu_capability(),  # which instructions torch uses
        "numpy_cpu": numpy_capability(),
        "device": device_name(config.train.main_device),
    }


def begin(folder: Path, config: Config) -> None:
    """Vouches for what is there before the first round."""
    facts = {"made_with": [made_with(config)], "backbone": _weights_of(config)}
    seal.write_record(folder, facts | {"settings": settings_of(config)}, FIXED)


def go_on(folder: Path, config: Config) -> None:
    """Refuses a damaged scenario, other settings and features; warns of other versions."""
    record = seal.read_record(folder)
    if record is None:
        log.warning(
            "%s has no %s: an older version of flr has made it, or it was stopped at its very "
            "start. Its files are used without checking them",
            folder,
            seal.RECORD,
        )
        record = {}
    seal.check(folder / FIXED[1])
    if "settings" in record:
        refuse_other_settings(folder, record["settings"], settings_of(config))
    elif seal.differs(folder / CONFIG):
        log.warning(
            "%s is not what the run began with; going on with what it says now. If you have not "
            "changed it, stop and take another copy",
            folder / CONFIG,
        )
    with named_by_others():
        backbone = _weights_of(config)
    if backbone and (record.get("backbone") or backbone) != backbone:
        raise DataError(
            f"Expected the backbone with the weights that {folder} began with (fingerprint "
            f"{str(record['backbone'])[:12]}); those here have {backbone[:12]}, and other features "
            "would come of them. Install or give the same weights, or run again."
        )
    known = record.get("made_with") or []
    facts = {"made_with": _with_this(known, made_with(config)), "backbone": backbone}
    seal.write_record(folder, facts | {"settings": settings_of(config)}, FIXED)


def finish(folder: Path, config: Config) -> None:
    """Vouches for the results too."""
    record = seal.read_record(folder) or {}
    facts = {
        "made_with": record.get("made_with") or [made_with(config)],
        "backbone": record.get("backbone", ""),
    }
    if "settings" in record:
        facts["settings"] = record["settings"]
    seal.write_record(folder, facts, (*FIXED, *RESULTS))


def settings_of(config: Config) -> dict[str, Any]:
    """Every setting by its dotted key, with values that JSON gives back as they are."""
    tree = tomllib.loads(config.to_toml())
    found: dict[str, Any] = json.loads(json.dumps(dict(dotted(tree))))
    return found


def refuse_other_settings(folder: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """One folder is one experiment: what shapes its numbers cannot change on the way."""
    changed = [key for key in sorted(before.keys() | now.keys()) if before.get(key) != now.get(key)]
    wrong = [key for key in changed if key not in FREE]
    if now["rounds"] < before["rounds"]:
        wrong.append("rounds")
    if not wrong:
        return
    listed = "; ".join(f"{key} {_said(before, key)}, now {_said(now, key)}" for key in wrong)
    raise ConfigError(
        f"Expected {folder / CONFIG} with the settings that the run began with; some are others: "
        f"{listed}. Put them back to go on (rounds may grow; workers, checkpoint_every, trackers, "
        "train.device, train.devices and data.path are free), or begin a new run with these: "
        f"flr run {folder / CONFIG} --out NEW (--from RUN: with the weights of a finished one)."
    )


def _said(settings: Mapping[str, Any], key: str) -> str:
    return show(settings[key]) if key in settings else "not set"


def _weights_of(config: Config) -> str:
    """The fingerprint of the backbone that makes the features; one that is trained has its own."""
    backbone = config.data.backbone
    return Embedder(backbone).backbone.fingerprint() if backbone else ""


def numpy_capability() -> str:
    """The widest instructions that NumPy takes, by its name for them."""
    known: Any = np.show_config(mode="dicts")
    found = known.get("SIMD Extensions", {}).get("found") or ["baseline"]
    return str(found[-1])


def device_name(device: str) -> str:
    """A device, and which kind of GPU it is."""
    kind, _, number = device.partition(":")
    return f"{kind} ({torch.cuda.get_device_name(int(number or 0))})" if kind == "cuda" else device


def _with_this(known: list[dict[str, Any]], now: dict[str, str]) -> list[dict[str, Any]]:
    """The list of what the run was made with; warns where something is new."""
    # some versions did not say all of it
    unsaid = {"bits": "machine", "device": now["device"], "numpy_cpu": now["numpy_cpu"]}
    before = {**unsaid, **known[-1]} if known else now
    if before == now:
        return known or [now]
    changed = [
        f"{name} {before.get(name)} (now {value})"
        for name, value in now.items()
        if before.get(name) != value
    ]
    log.warning(
        "The run was made with %s. Rounds that are done stay as they are, bit for bit; those from "
        "here on are right, but not promised to be the bits of a run that was never stopped",
        ", ".join(changed),
    )
    return [*known, now]
