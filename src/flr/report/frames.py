"""Lines and tables as pandas has them, for notebooks; pandas is imported where it is used."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from flr.core.errors import ConfigError

if TYPE_CHECKING:
    import pandas as pd


def to_frame(entries: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """One row for each entry, in their order."""
    try:
        import pandas
    except ImportError as error:
        raise ConfigError(
            f"Expected pandas for a table in Python; it cannot be imported ({error}). "
            "Install it: pip install pandas."
        ) from error
    found: pd.DataFrame = pandas.DataFrame(list(entries))
    return found


def flat(line: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """The numbers and words of a line by their dotted keys; of a list, how long it is."""
    for key, value in line.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{above}{key}.")
        else:
            yield above + key, len(value) if isinstance(value, list) else value
