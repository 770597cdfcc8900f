"""Reads texts with their labels from a CSV or a JSON-lines file, and says which line is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from flr.core.errors import DataError
from flr.core.registry import nearest
from flr.data.checks import Samples
from flr.data.paths import require_file
from flr.data.readers import sheets, tables
from flr.data.texts import Texts

JSON_LINES = (".jsonl", ".ndjson")
SUFFIXES = (*sorted(sheets.SUFFIXES), *JSON_LINES)


def read_texts(
    path: Path, text: str, label: str, site: str | None, *, label_required: bool = True
) -> Samples:
    """Texts, labels and, where they are named, sites; samples are named by their line."""
    keys = {"text": text, "label": label} | ({} if site is None else {"site": site})
    if not label_required and label not in _names(path):
        del keys["label"]
    if len(set(keys.values())) < len(keys):
        raise DataError(
            f"{path}: expected different columns as {', '.join(keys)}; got "
            f"{', '.join(keys.values())}. Name each of them once."
        )
    if path.suffix.lower() in sheets.SUFFIXES:
        found = _from_csv(path, keys)
    elif path.suffix.lower() in JSON_LINES:
        found = _from_json_lines(path, keys)
    else:
        require_file(path, "a file of texts")
        raise DataError(
            f'Expected a table (.csv, .tsv, .xlsx) or a .jsonl file of texts; got "{path.name}". '
            "Convert it to one of these."
        )
    for line, cells in found.items():
        _check(path, line, keys, cells)
    columns = {key: [cells[key] for cells in found.values()] for key in keys}
    sites = np.array(columns["site"]) if site is not None else None
    lines = [str(line) for line in found]
    labels = np.array(columns["label"]) if "label" in columns else None
    return Samples(Texts.of(columns["text"]), labels, lines, sites)


def _names(path: Path) -> list[str]:
    """The columns of a table, or the keys of the first object of a JSON-lines file."""
    if path.suffix.lower() in sheets.SUFFIXES:
        return tables.read_rows(path)[0]
    return list(next(iter(_objects(path).values())))


def _from_csv(path: Path, keys: dict[str, str]) -> dict[int, dict[str, str]]:
    header, rows = tables.read_rows(path)
    at = {key: tables.position_of(path, header, name, key) for key, name in keys.items()}
    tables.check_widths(path, header, rows)
    return {
        line: {key: row[position].strip() for key, position in at.items()}
        for line, row in rows.items()
    }


def _from_json_lines(path: Path, keys: dict[str, str]) -> dict[int, dict[str, str]]:
    return {
        number: {key: _value(path, number, found, key, name) for key, name in keys.items()}
        for number, found in _objects(path).items()
    }


def _objects(path: Path) -> dict[int, dict[str, Any]]:
    """Only a line break ends a line: texts may hold whatever else Unicode calls one."""
    require_file(path, "a file of texts")
    try:
        lines = path.read_bytes().decode("utf-8-sig").split("\n")
    except (UnicodeDecodeError, OSError) as error:
        raise DataError(
            f"{path}: expected lines of JSON in UTF-8; it cannot be read ({error}). Save it as "
            "UTF-8."
        ) from error
    numbered = [(number, line) for number, line in enumerate(lines, start=1) if line.strip()]
    if not numbered:
        raise DataError(f"{path}: expected at least one line of JSON; got none. Add some.")
    return {number: _object(path, number, line) for number, line in numbered}


def _object(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        found: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{path}, line {number}: expected one JSON object on a line; it cannot be read "
            f"({error}). Correct the line."
        ) from None
    if not isinstance(found, dict):
        raise DataError(
            f"{path}, line {number}: expected a JSON object ({{...}}); got "
            f"{type(found).__name__}. Write one object a line."
        )
    return found


def _value(path: Path, number: int, found: dict[str, Any], key: str, name: str) -> str:
    """Texts are text; labels and sites may be whole numbers, too."""
    value = found.get(name)
    if isinstance(value, str):
        return value.strip()
    if key != "text" and isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    got = f"{json.dumps(value)[:40]} there" if name in found else "no such key"
    hint = "" if name in found else nearest(name, map(str, found))
    raise DataError(
        f"{path}, line {number}: expected {'text' if key == 'text' else 'a name or number'} as "
        f'"{name}"; got {got}.{hint} Correct the line, or set `{key}` to the key that holds it.'
    )


def _check(path: Path, line: int, keys: dict[str, str], cells: dict[str, str]) -> None:
    for key, name in keys.items():
        where = f'{path}, line {line}, "{name}"'
        if not cells[key]:
            raise DataError(
                f"{where}: expected {'a text' if key == 'text' else 'a name'}; got an empty one. "
                "Fill it in or remove the line."
            )
        try:
            cells[key].encode()
        except UnicodeEncodeError:
            raise DataError(
                f"{where}: expected Unicode text; got half of a surrogate pair. Save the file "
                "again from where the text comes from."
            ) from None
