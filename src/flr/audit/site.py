"""A real site: its data, its labels, the federation's model and what the site has kept itself."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from flr import arrays
from flr.audit import opinions, pictures
from flr.audit.case import Case, Labels
from flr.audit.evidence import Evidence
from flr.audit.labels_file import some
from flr.audit.matching import Chosen, by_name, choose
from flr.audit.opinions import Tables
from flr.client import saved
from flr.client.saved import SavedModel
from flr.data import images, sources
from flr.errors import DataError

_EXPERIMENT = re.compile(r"[0-9a-f]{16}")  # as flr.flower.node calls its folders
_DEEPEST = 3  # experiment / site / client
_LISTED = 10


@dataclass(frozen=True)
class SiteFiles:
    """Where everything is; all of it is on the site's own disk."""

    data: Path
    model: Path  # model.safetensors, or a folder with it
    labels: Path | None = None  # None: they come with the data
    state: Path | None = None  # the node's state-dir, or a folder in it
    label: str = "label"  # column of a CSV file
    size: int | None = None  # of images
    trust: bool = False  # of code that the model names


@dataclass(frozen=True, eq=False)
class _Data:
    x: Tensor
    names: list[str]
    labels: list[str] | None  # that came with it


def open_site(files: SiteFiles) -> Case:
    """Reads all, refuses what does not belong together, and says what is left out."""
    path = files.model / "model.safetensors" if files.model.is_dir() else files.model
    model = saved.load(path, trust=files.trust)
    data = _read_data(files, model)
    chosen, order = _match(files, data, model)
    rows = chosen.rows
    state = None if files.state is None else newest_state(files.state)
    tables = _read_tables(state, len(data.x), model).at(rows)
    parts = opinions.prepared(data.x, rows, model.normalise)
    views = tables.views | {"model": opinions.predictions(model.networks, parts)}
    evidence = Evidence(
        site=_site_name(files.data, state),
        names=[data.names[row] for row in rows.tolist()],
        classes=model.classes,
        given=chosen.given,
        views=views,
        visited=tables.visited,
        source=tables.source,
    )
    notes = [*order, *chosen.notes, *_about_state(files.state, tables, views["model"])]
    labels = Labels(data.names, data.labels) if files.labels is None and data.labels else None
    if files.data.is_dir():
        thumbnails = pictures.from_files(_root(files.data), evidence.names)
    else:
        thumbnails = pictures.from_inputs(data.x, rows)
    texts = pictures.features(data.x, rows, _columns(files))
    return Case(evidence, thumbnails, texts, labels, tuple(notes), chosen.left_out)


def newest_state(folder: Path) -> Path:
    """The newest version of the one state in a node's state-dir, or in a folder inside it."""
    if not folder.is_dir():
        raise DataError(
            f"Expected the state-dir of a node at {folder}; there is no such folder. Check the "
            "path, or leave --state out."
        )
    found: dict[Path, list[int]] = {}
    for depth in range(_DEEPEST + 1):
        for path in folder.glob("*/" * depth + "*.safetensors"):
            if path.stem.isdigit():
                found.setdefault(path.parent, []).append(int(path.stem))
    if not found:
        raise DataError(
            f"Expected the state of a site in {folder}, as EXPERIMENT/SITE/CLIENT/STEP.safetensors;"
            " there is none. Give the node's state-dir (default: ~/.flr/state), or leave --state "
            "out."
        )
    if len(found) > 1:
        listed = "".join(f"\n  {path}" for path in sorted(found)[:_LISTED])
        raise DataError(
            f"Expected the state of one site in one experiment; {folder} has {len(found):,}:"
            f"{listed}\nGive one of these folders as --state."
        )
    ((place, versions),) = found.items()
    return place / f"{max(versions)}.safetensors"


def as_text(y: Tensor, known: tuple[str, ...] | None, classes: tuple[str, ...]) -> list[str]:
    """Labels as the model names them; plain numbers count its classes, unless these are numbers."""
    numbers = y.tolist()
    if known is not None:
        return [known[number] for number in numbers]
    if all(name.isdecimal() for name in classes):
        return [str(number) for number in numbers]
    return [classes[n] if n < len(classes) else str(n) for n in numbers]


def _read_data(files: SiteFiles, model: SavedModel) -> _Data:
    x, y, known, names = sources.read(files.data, None, files.label, files.size, training=True)
    opinions.check_shape(model, tuple(x.shape[1:]), str(files.data))
    odd = [name for name in names if not _is_utf8(name)]
    if odd:
        raise DataError(
            f"{files.data}: expected file names in UTF-8; got {some(odd, 3)}. Rename them."
        )
    return _Data(x, names, None if y is None else as_text(y, known, model.classes))


def _match(files: SiteFiles, data: _Data, model: SavedModel) -> tuple[Chosen, list[str]]:
    """The samples to audit, and a word on their order."""
    if files.labels is None:
        if data.labels is None:
            raise DataError(
                f"{files.data}: expected labels with the data, or in a file of their own; got "
                "neither. Give a table with the columns name and label: --labels labels.csv."
            )
        return choose(data.names, data.labels, (), model.classes, files.data), []
    found = by_name(files.labels, data.names, files.data)
    chosen = choose(data.names, found.labels, found.absent, model.classes, files.labels)
    if not found.reordered:
        return chosen, []
    return chosen, [
        f"Whether equal names mean the same samples: {files.labels.name} has another order than "
        "the data, and was matched by name."
    ]


def _read_tables(state: Path | None, samples: int, model: SavedModel) -> Tables:
    if state is None:
        return Tables()
    kept, _ = arrays.load(state)
    return opinions.read_tables(kept, samples, model.method, len(model.classes), str(state))


def _about_state(folder: Path | None, tables: Tables, model: Tensor) -> list[str]:
    if folder is None:
        return []
    if tables.visited is None:
        return [
            f"FLR's tables: the state in {folder} has none, as it was trained by another method."
        ]
    doubt = opinions.doubt(tables, model)
    return [] if doubt is None else [doubt]


def _site_name(data: Path, state: Path | None) -> str:
    """As the federation calls it, where that is known."""
    above = [] if state is None else [folder.name for folder in state.resolve().parents]
    if len(above) > 2 and _EXPERIMENT.fullmatch(above[2]):
        return above[1]
    return data.resolve().stem


def _root(folder: Path) -> Path:
    """What the names of image files are relative to."""
    parts = images.parts(folder)
    return parts[0] if parts else folder


def _columns(files: SiteFiles) -> list[str]:
    """The feature columns of a CSV file."""
    if files.data.suffix.lower() != ".csv":
        return []
    with files.data.open(encoding="utf-8-sig", newline="") as file:
        header = next(row for row in csv.reader(file) if any(cell.strip() for cell in row))
    return [name.strip() for name in header if name.strip() != files.label]


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
