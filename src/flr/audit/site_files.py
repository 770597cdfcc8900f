"""A site's own data: its labels, what was computed from it, and what a federation says of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from flr.audit import features, pictures
from flr.audit.collect import Collection, Columns, Progress, collect
from flr.audit.evidence import Evidence
from flr.audit.labels_file import LabelTable, read_labels
from flr.audit.matching import Chosen, Labelled, by_name, choose
from flr.audit.other_issues import other_issues
from flr.audit.out_of_sample import with_site_opinions
from flr.audit.predictions import gather_evidence, read_kept, refuse_other_rows
from flr.audit.run_clients import is_run
from flr.audit.site_audit import SiteAudit
from flr.core import arrays, seal
from flr.core.contract import SamplePredictions
from flr.core.errors import DataError
from flr.data.on_disk import Inputs
from flr.data.readers import images
from flr.data.sources.files import read_samples
from flr.models import model_file
from flr.models.model_file import SavedModel

_EXPERIMENT = re.compile(r"[0-9a-f]{16}")  # as flr.flower.node calls its folders
_DEEPEST = 3  # experiment / site / client
_LISTED = 10

ALONE = (
    "Judged by this data alone, without a model of a federation: each opinion is of a classifier "
    "that has not seen the label in question."
)


@dataclass(frozen=True)
class SiteFiles:
    """Where everything is; all of it is on the site's own disk."""

    data: Path
    model: Path | None = None  # model.safetensors, or a folder with it; None: data alone
    labels: Path | None = None  # None: they come with the data
    state: Path | None = None  # the node's state-dir, or a folder in it
    label: str | None = None  # column of a table; None: found by its name
    size: int | None = None  # of images, as the model takes them
    trust: bool = False  # of code that the model names
    name: str | None = None  # column of a table
    text: str | None = None

    @property
    def columns(self) -> Columns:
        """Of the data, where they are a table; with a table of labels, of that."""
        if self.labels is None:
            return Columns(self.label, self.name, self.text)
        return Columns(text=self.text)


def open_site(files: SiteFiles, tell: Progress = features.none) -> SiteAudit:
    """Reads all, refuses what does not belong together, and says what is left out."""
    model = None if files.model is None else model_file.load(files.model, trust=files.trust)
    table = (
        None
        if files.labels is None
        else read_labels(files.labels, files.name, files.label, guess=True)
    )
    found = collect(files.data, files.columns, tell, skip=files.labels)
    labelled = _labelled(files, found, table, model)
    classes = None if model is None else model.classes
    chosen = choose(found.names, labelled, classes, found.unreadable)
    names = [found.names[row] for row in chosen.rows.tolist()]
    if found.features is None:
        x, about = features.compute(features.of_rows(found.inputs, chosen.rows), tell)
    else:
        x, about = features.compute(found.features[chosen.rows], tell)
    notes = (*found.notes, *chosen.notes)
    if model is None:
        site, source = files.data.resolve().stem, f"{ALONE} {about}"
        evidence = Evidence(
            site, names, chosen.classes, chosen.given, {}, None, source, False, features=x
        )
    else:
        evidence, doubts = _with_model(files, model, found, chosen, names)
        evidence = replace(evidence, features=x, source=f"{evidence.source} {about}")
        notes += doubts
    own = files.labels is None and labelled.labels
    evidence = with_site_opinions(evidence, tell)
    return SiteAudit(
        evidence,
        _thumbnails(found, chosen.rows),
        pictures.features(found.inputs, chosen.rows, found.columns),
        (found.names, [label or "" for label in labelled.labels]) if own else None,
        notes,
        (*chosen.left_out, *found.other),
        kind=found.kind,
        sources=_sources(found, chosen.rows),
        other_issues=other_issues(evidence, _odd(found, chosen.rows)),
        table=table,
    )


def _labelled(
    files: SiteFiles, found: Collection, table: LabelTable | None, model: SavedModel | None
) -> Labelled:
    if table is not None:
        return by_name(table, found.names, files.data)
    if found.labels is None:
        inside = sorted(files.data.glob("*.csv")) if files.data.is_dir() else []
        near = f"{inside[0]} may be it: " if inside else ""
        path = inside[0] if inside else "labels.csv"
        raise DataError(
            f"{files.data}: expected labels with the data (folders called like classes, a column "
            f'"label", an array y), or in a table of their own; got neither. {near}'
            f"flr audit {files.data} {path}"
        )
    labels = found.labels
    if model is not None and found.classes is None:
        labels = [label if label is None else in_words(label, model.classes) for label in labels]
    return Labelled(labels, files.data)


def in_words(label: str, classes: tuple[str, ...]) -> str:
    """A label as the model names it; plain numbers count its classes, unless these are numbers."""
    counts = label.isdecimal() and not all(name.isdecimal() for name in classes)
    return classes[int(label)] if counts and int(label) < len(classes) else label


def _thumbnails(found: Collection, rows: Tensor) -> pictures.Thumbnails:
    if found.files:
        return pictures.from_files(found.path, [found.names[row] for row in rows.tolist()])
    return pictures.from_inputs(found.inputs, rows)


def _sources(found: Collection, rows: Tensor) -> Callable[[int], Path | None]:
    if not found.files:
        return lambda _row: None
    return lambda row: found.files[int(rows[row])].resolve()


def _odd(found: Collection, rows: Tensor) -> tuple[tuple[int, str], ...]:
    """By their place among the audited samples."""
    place = {row: i for i, row in enumerate(rows.tolist())}
    return tuple((place[row], what) for row, what in found.odd if row in place)


def _with_model(
    files: SiteFiles, model: SavedModel, found: Collection, chosen: Chosen, names: list[str]
) -> tuple[Evidence, tuple[str, ...]]:
    """What the federation's model says of these samples, and what the site has kept of them."""
    raw = _as_trained(files, model, found, chosen.rows)
    x = model.features(raw)
    _check_shape(model, tuple(x.shape[1:]), files.data)
    state, kept = None, None
    if files.state is not None:
        state = newest_state(files.state)
        refuse_damaged(state)
        kept = _kept(model, found, chosen.rows, state)
    site, every = _site_name(files.data, state), torch.arange(len(names))
    evidence = gather_evidence(site, names, chosen.given, model, x, every, model.normalize, kept)
    about_state = None
    if kept is not None:
        refuse_other_rows(evidence, kept)
    if kept is None and state is not None:
        keeps = "none of that, as the model's method does not keep it."
        about_state = f"What was said of each sample in training: {files.state} has {keeps}"
    return evidence, (about_state,) if about_state else ()


def _as_trained(files: SiteFiles, model: SavedModel, found: Collection, rows: Tensor) -> Inputs:
    """The samples as a node of the federation reads them."""
    if found.files:
        side = model.reading.get("side", 0)
        read = images.one_by_one(side) if side else images.at_once(files.size)
        return read(found.path, [found.files[row] for row in rows.tolist()])
    parts = []
    for training in (True, False) if _two_parts(found) else (True,):
        raw, *_ = read_samples(files.data, None, found.label, training=training, **model.reading)
        parts.append(raw)
    whole = parts[0] if len(parts) == 1 else torch.cat([torch.as_tensor(part) for part in parts])
    return features.of_rows(whole, rows)


def _two_parts(found: Collection) -> bool:
    return found.path.suffix.lower() == ".npz" and found.names[-1].startswith("test/")


def _kept(
    model: SavedModel, found: Collection, rows: Tensor, state: Path
) -> SamplePredictions | None:
    """What was kept of the audited samples; of those that were not trained on, nothing was."""
    trained = _training_order(found)
    kept = read_kept(arrays.load(state)[0], len(trained), model, str(state))
    if kept is None:
        return None
    place = {row: i for i, row in enumerate(trained)}
    at = torch.tensor([place.get(row, -1) for row in rows.tolist()])
    known, at = at >= 0, at.clamp(min=0)
    even = torch.full((len(rows), len(model.classes)), 1 / len(model.classes))
    views = {n: torch.where(known[:, None], v[at], even) for n, v in kept.views.items()}
    return replace(kept, views=views, visited=kept.visited[at] & known)


def _training_order(found: Collection) -> list[int]:
    """The rows of the collection in which a node reads them: the training part, if there is one."""
    if not found.files:
        return [row for row, name in enumerate(found.names) if not name.startswith("test/")]
    position = {file: row for row, file in enumerate(found.files)}
    parts = images.parts(found.path)
    folder = parts[0] if parts else found.path
    nothing = images.one_by_one(1)  # decodes no image
    read = images.read_classes if images.subfolders(folder) else images.read_flat
    return [position[folder / name] for name in read(folder, nothing).names]


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
    if any(map(is_run, (folder, *folder.resolve().parents))):
        raise DataError(
            f"Expected the state-dir of a node; {folder} belongs to a simulated run, whose clients "
            "have samples in another order than any file. Give the run: flr audit RUN."
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


def _site_name(data: Path, state: Path | None) -> str:
    """As the federation calls it, where that is known."""
    above = [] if state is None else [folder.name for folder in state.resolve().parents]
    if len(above) > 2 and _EXPERIMENT.fullmatch(above[2]):
        return above[1]
    return data.resolve().stem
