"""Writes a complete small Flower app: what `flwr run` takes, with this library inside."""

from __future__ import annotations

import importlib.util
import keyword
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from importlib import resources
from pathlib import Path, PurePosixPath

from jinja2 import Environment, StrictUndefined

from flr.core.errors import ConfigError, DataError

MAIN = "pyproject.toml"  # without it a folder is no app

_NAME = re.compile(r"[A-Za-z]([A-Za-z0-9_-]*[A-Za-z0-9])?")
_LONGEST = 32  # Flower's limit for an app's name
_NOT_PACKED = {"build", "eggs", "lib", "lib64", "parts", "env", "venv"}  # by Flower, as folders
_RENDERED = ".jinja"
_OF_BOTH = ("LICENSE", "gitignore")
_SERVER = {
    "listen": "9092",
    "superlink": "127.0.0.1:8000",
    "room": "127.0.0.1:8001",
    "certificates": "/etc/flr",
}


def write_app(folder: Path, *, bare: bool = False) -> Path:
    """Makes the app in a new or empty folder, whose name becomes that of the app; all or nothing.

    A bare one is a plain Flower app with a loop of its own, and `flr.LabelMixture` in it. Gives the
    folder's absolute path.
    """
    folder = folder.absolute().resolve()
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        what = "a file"
        if folder.is_dir():
            found = sorted(path.name for path in folder.iterdir())
            what = f"a folder that holds {', '.join(found[:3])}"
        raise DataError(
            f"Expected a new or empty folder for the app; {folder} is {what}. Choose another one."
        )
    name, package = names_of(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        for place, text in rendered(name, package, bare=bare):
            path = draft / place
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        draft.chmod(0o755)  # a temporary folder is for its owner only
        _move(draft, folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return folder


def names_of(folder: Path) -> tuple[str, str]:
    """The names of app and Python package: Flower wants hyphens where Python wants underscores."""
    name, package = folder.name.replace("_", "-"), folder.name.replace("-", "_")
    problem = ""
    if not _NAME.fullmatch(folder.name) or len(name) > _LONGEST:
        problem = (
            f"of at most {_LONGEST} letters, digits, dashes and underscores that begins with a "
            "letter"
        )
    elif keyword.iskeyword(package):
        problem = "that is no word of the Python language"
    elif package.lower() in _NOT_PACKED:
        problem = "that Flower does not leave out when it packs an app"
    else:
        with suppress(ImportError, ValueError):
            found = importlib.util.find_spec(package)
            if found is not None and found.origin is not None:  # an empty folder has no origin
                problem = "that no installed Python package has"
    if problem:
        raise ConfigError(
            f'Expected a folder with a name {problem}: it names the app; got "{folder.name}". '
            "Choose another one, such as my-federation."
        )
    return name, package


def rendered(name: str, package: str, *, bare: bool = False) -> Iterator[tuple[PurePosixPath, str]]:
    """Every file of the app, by its place in it."""
    environment = _environment()
    special = {"package": package, "gitignore": ".gitignore"}
    with resources.as_file(resources.files("flr.flower")) as here:
        root, full = here / ("bare_template" if bare else "template"), here / "template"
        files = {path for path in root.rglob("*") if path.is_file()}
        for file in sorted(files | {full / name for name in _OF_BOTH}):
            base = full if file.parent == full else root
            text = file.read_text(encoding="utf-8")
            parts = [special.get(part, part) for part in file.relative_to(base).parts]
            if file.suffix == _RENDERED:
                text = environment.from_string(text).render(name=name, package=package, **_SERVER)
                parts[-1] = parts[-1].removesuffix(_RENDERED)
            yield PurePosixPath(*parts), text


def front_door(listen: str, superlink: str, certificates: str, room: str) -> str:
    """The app's config of nginx for other addresses and another folder of certificates."""
    file = resources.files("flr.flower") / "template" / "deploy" / f"nginx.conf{_RENDERED}"
    own = {"listen": listen, "superlink": superlink, "certificates": certificates, "room": room}
    return _environment().from_string(file.read_text(encoding="utf-8")).render(own)


def _environment() -> Environment:
    return Environment(  # noqa: S701  # no HTML
        undefined=StrictUndefined, keep_trailing_newline=True
    )


def _move(draft: Path, folder: Path) -> None:
    """One rename makes a new folder; an empty one, in which a shell may stand, is filled."""
    if not folder.exists():
        draft.rename(folder)
        return
    names = sorted((path.name for path in draft.iterdir()), key=lambda name: name == MAIN)
    try:
        for name in names:  # the main file is the last one
            (draft / name).rename(folder / name)
    except BaseException:
        for name in names:
            if not (draft / name).exists():
                (folder / name).rename(draft / name)
        raise
