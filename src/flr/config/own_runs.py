"""Whose code a run folder names: that of the user who made it here, or somebody else's.

A config or a model file may name code as "module:function", and to read it is to run it. Whoever
made a folder with `flr run` on this machine has run that code already; a folder that came by mail
waits for --trust. To tell them apart, a folder that names code gets a seal, made of that code's
names and options and of a secret that stays with the user. Other settings may be changed by hand.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import secrets
from pathlib import Path

from flr.config.devices import devices_of_others
from flr.config.entry import as_toml, without_code
from flr.config.load import load
from flr.config.settings import Config
from flr.core.arrays import canonical_json, write_atomically
from flr.core.errors import ConfigError, DataError, FlrError

log = logging.getLogger("flr")

SEAL = ".made-here"

_BESIDE = ("scenario.safetensors", "federation.json", "summary.json", SEAL)  # of a run's config


def load_run(
    folder: Path, *, trust: bool = False, code: bool = True, plugins: bool = True
) -> Config:
    """The config of a run folder; without `code` nothing that it names is looked at.

    Its device may be another machine's: whoever computes asks for one of his own (`on_device`).
    Without `plugins`, or without `code`, it may name what a plugin has registered that is not here.

    Raises:
        DataError: It names code, the folder was not made here, and nobody says `trust`.
        ConfigError: A plugin is missing.
    """
    path = folder / "config.toml"
    with without_code(), devices_of_others():
        config = load(path)
    if code and plugins and (missing := config.missing()):
        what = " and ".join(f'{entry.kind} "{entry.name}"' for entry in missing)
        raise ConfigError(
            f"Expected what {path} names to be here; {what} is of a plugin that is not. Install "
            "it, or import the module that registers it (in Python). `flr compare` does without."
        )
    named = [entry.name for entry in config.code()]
    if not code or not named:
        return config
    if not trust and not _sealed(folder, config):
        raise DataError(
            f"Expected a run that was made here, or one without code of its own; {path} names "
            f"{' and '.join(named)}, which reading it would import and run. If you trust it, say "
            "--trust (in Python: trust=True; on Flower: flower.trust=true)."
        )
    with devices_of_others():
        return load(path)


def own_code(folder: Path) -> frozenset[str]:
    """The functions that the folder names and that this user has run here; none of others'."""
    try:
        config = load_run(folder, code=False)
    except FlrError:
        return frozenset()
    return frozenset(e.name for e in config.code()) if _sealed(folder, config) else frozenset()


def in_run_folder(path: Path) -> bool:
    """Whether a config is one that a run has written, not one that the user has."""
    return path.name == "config.toml" and any((path.parent / name).exists() for name in _BESIDE)


def seal(folder: Path, config: Config) -> None:
    """Remembers that this user made the folder; only one that names code needs it."""
    if config.code():
        try:
            write_atomically(folder / SEAL, _seal_of(config), sync=True)
        except OSError as error:
            log.warning("This run will want --trust when it is read again (%s).", error)


def _sealed(folder: Path, config: Config) -> bool:
    try:
        found = (folder / SEAL).read_bytes()
        return bool(config.code()) and hmac.compare_digest(found, _seal_of(config).encode())
    except OSError:
        return False


def _seal_of(config: Config) -> str:
    named = [[entry.kind, entry.name, as_toml(entry.options)] for entry in config.code()]
    return hmac.new(_secret(), canonical_json(named).encode(), hashlib.sha256).hexdigest()


def _secret() -> bytes:
    """The user's own, made when it is first needed; of two processes the first one's counts."""
    home = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    path = Path(home).expanduser() / "flr" / "secret"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".secret.{secrets.token_hex(8)}")
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(secrets.token_bytes(32))
        try:
            path.hardlink_to(draft)
        except FileExistsError:
            pass
        finally:
            draft.unlink()
    return path.read_bytes()
