"""A real site: its data, its labels, the federation's model and what the site has kept itself."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from flr.audit import pictures
from flr.audit.labels_file import some
from flr.audit.matching import Chosen, by_name, choose
from flr.audit.predictions import gather_evidence, read_kept, refuse_other_rows
from flr.audit.site_audit import SiteAudit
from flr.core import arrays, seal
from flr.core.errors import DataError
from flr.data.readers import images
from flr.data.sources.files import read_samples
from flr.models import model_file
from flr.models.model_file import SavedModel

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


def open_site(files: SiteFiles) -> SiteAudit:
    """Reads all, refuses what does not belong together, and says what is left out."""
    model = model_file.load(files.model, trust=files.trust)
    raw, y, known, names = read_samples(
        files.data, None, files.label, files.size, training=True, **model.reading
    )
    x = model.features(raw)
    _check_shape(model, tuple(x.shape[1:]), files.data)
    odd = [name for name in names if name != name.encode(errors="replace").decode()]
    if odd:
        raise DataError(
            f"{files.data}: expected file names in UTF-8; got {some(odd, 3)}. Rename them."
        )
    labels = None if y is None else as_text(y, known, model.classes)
    chosen = _match(files, names, labels, model.classes)
    rows, state, kept = chosen.rows, None, None
    if files.state is not None:
        state = newest_state(files.state)
        refuse_damaged(state)
        kept = read_kept(arrays.load(state)[0], len(x), model, str(state), rows)
    name, audited = _site_name(files.data, state), [names[row] for row in rows.tolist()]
    evidence = gather_evidence(name, audited, chosen.given, model, x, rows, model.normalize, kept)
    about_state = None
    if kept is not None:
        refuse_other_rows(evidence, kept)
    if kept is None and state is not None:
        keeps = "none of that, as the model's method does not keep it."
        about_state = f"What was said of each sample in training: {files.state} has {keeps}"
    if files.data.is_dir():  # names are relative to the part of the folder that is for training
        root = next(iter(images.parts(files.data) or []), files.data)
        thumbnails = pictures.from_files(root, evidence.names)
    else:
        thumbnails = pictures.from_inputs(raw, rows)
    return SiteAudit(
        evidence,
        thumbnails,
        pictures.features(raw, rows, _columns(files)),
        (names, labels) if files.labels is None and labels else None,
        (*chosen.notes, *([about_state] if about_state else [])),
        chosen.left_out,
    )


def refuse_damaged(state: Path) -> None:
    """A node keeps a digest beside each state; older versions of flr kept none."""
    beside = state.with_suffix(".sha256")
    if beside.is_file() and beside.read_bytes() != seal.digest_of(state).encode():
        raise DataError(
            f"Expected the state at {state} as the node has written it; it is damaged: its digest "
            f"and {beside.name} differ. Take another copy of the state-dir, or leave --state out."
        )


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


def _check_shape(model: SavedModel, shape: tuple[int, ...], where: Path) -> None:
    """Refuses a model that was trained on inputs of another shape."""
    if shape == model.input_shape:
        return
    square = len(shape) == 3 and len(model.input_shape) == 3 and shape[0] == model.input_shape[0]
    hint = f", or scale images with --size {model.input_shape[-1]}" if square else ""
    raise DataError(
        f"{where}: expected inputs of shape {model.input_shape}, as the model takes; got {shape}. "
        f"Use the model that was trained on data of this kind{hint}."
    )


def _match(
    files: SiteFiles, names: list[str], labels: list[str] | None, classes: tuple[str, ...]
) -> Chosen:
    if files.labels is not None:
        return by_name(files.labels, names, files.data, classes)
    if labels is None:
        raise DataError(
            f"{files.data}: expected labels with the data, or in a file of their own; got "
            "neither. Give a table with the columns name and label: --labels labels.csv."
        )
    return choose(names, labels, classes, files.data)


def _site_name(data: Path, state: Path | None) -> str:
    """As the federation calls it, where that is known."""
    above = [] if state is None else [folder.name for folder in state.resolve().parents]
    if len(above) > 2 and _EXPERIMENT.fullmatch(above[2]):
        return above[1]
    return data.resolve().stem


def _columns(files: SiteFiles) -> list[str]:
    """The feature columns of a CSV file."""
    if files.data.suffix.lower() != ".csv":
        return []
    with files.data.open(encoding="utf-8-sig", newline="") as file:
        header = next(row for row in csv.reader(file) if any(cell.strip() for cell in row))
    return [name.strip() for name in header if name.strip() != files.label]
