"""Files as other programs write them, small, for `flr audit` and `flr relabel` to be spoiled."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pydicom
from PIL import Image

CLASSES = ("nevus", "keratose", "=melanom")
COUNT = 9  # so few that judging them takes no time, and reading them is what is attacked
MOODS = ("gut", "schlecht", "egal")
CORRECTIONS = ("name", "given", "decision", "label", "audit")


def given(number: int) -> str:
    return CLASSES[number % 3]


def write_scans(folder: Path, suffix: str) -> tuple[str, ...]:
    """Pictures of two sizes of number; gives their names."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    for number in range(COUNT):
        pixels = rng.integers(0, 900, (12, 10)) + 1000 * (number % 3)
        write_scan(folder / f"{number}{suffix}", pixels.astype(np.uint16))
    return tuple(f"{folder.name}/{number}{suffix}" for number in range(COUNT))


def write_scan(path: Path, pixels: np.ndarray[Any, Any], **more: Any) -> None:
    """PNG or TIFF of 16 bits, or DICOM with a window."""
    if path.suffix != ".dcm":
        Image.fromarray(pixels).save(path)
        return
    syntax = more.pop("syntax", pydicom.uid.ExplicitVRLittleEndian)
    meta = pydicom.dataset.FileMetaDataset()
    meta.TransferSyntaxUID = syntax
    meta.MediaStorageSOPClassUID = pydicom.uid.SecondaryCaptureImageStorage
    meta.MediaStorageSOPInstanceUID = pydicom.uid.generate_uid(entropy_srcs=[path.name])
    file = pydicom.dataset.FileDataset(str(path), {}, file_meta=meta, preamble=b"\0" * 128)
    file.Rows, file.Columns = pixels.shape
    file.SamplesPerPixel, file.PhotometricInterpretation = 1, "MONOCHROME1"
    file.BitsAllocated, file.BitsStored, file.HighBit, file.PixelRepresentation = 16, 16, 15, 0
    file.WindowCenter, file.WindowWidth, file.RescaleSlope, file.RescaleIntercept = 1500, 3000, 1, 0
    file.PixelData = pixels.tobytes()
    for key, value in more.items():
        setattr(file, key, value)
    file.save_as(path, enforce_file_format=True)


def rows_of_labels(names: Sequence[str]) -> Iterator[tuple[object, ...]]:
    """A table of labels as somebody keeps it, with a header and other columns."""
    yield "Nr", "Datei", "Diagnose", "Notiz"
    for number, name in enumerate(names):
        yield number, name, given(number), f'a "{number}"; b'


def rows_of_numbers() -> Iterator[tuple[object, ...]]:
    """A table with numbers, gaps and categories."""
    rng = np.random.default_rng(1)
    yield "id", "age", "rate", "kind", "label"
    for number in range(COUNT):
        size, rate = rng.random(2)
        yield (
            number,
            round(20 + 50 * size, 2) if number % 7 else "NA",
            f"{rate + number % 3:.3f}",
            "abc"[number % 3],
            given(number),
        )


def rows_of_decisions() -> Iterator[tuple[str, ...]]:
    """corrections.csv as the page saves it."""
    yield CORRECTIONS
    for number in range(COUNT):
        decision = ("accept", "keep", "skip")[number % 3 if number % 2 else 0]
        label = given(number + 1) if decision == "accept" else ""
        yield f"s/{number}.png", given(number), decision, label, "0" * 16


def write_csv(path: Path, rows: Iterator[tuple[object, ...]], encoding: str, mark: str) -> None:
    """In one of the dialects of spreadsheets."""
    text = io.StringIO()
    csv.writer(text, delimiter=mark, lineterminator="\r\n").writerows(rows)
    path.write_bytes(text.getvalue().encode(encoding))


def write_xlsx(path: Path, rows: Iterator[tuple[object, ...]]) -> None:
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    book.save(path)


def write_jsonl(path: Path) -> None:
    texts = (f"{MOODS[k % 3]} genug {k} \u2028" for k in range(COUNT))
    lines = (json.dumps({"text": t, "label": given(k)}) for k, t in enumerate(texts))
    path.write_text("\n".join([*lines, ""]))
