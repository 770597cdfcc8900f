"""Who takes part in an experiment: settled when it begins, the same after a resume."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from flr.arrays import canonical_json, write_atomically
from flr.data.dataset import Subject
from flr.errors import DataError
from flr.flower.charter import subject_from_note, subject_to_note
from flr.flower.roll import Facts
from flr.flower.settings import Flower

RECORD = "federation.json"


@dataclass(frozen=True)
class Members:
    """The experiment, its sites in order with their sizes, and what they classify."""

    experiment: str
    sites: tuple[str, ...]
    examples: tuple[int, ...]
    subject: Subject
    flower: Flower
    keys: dict[str, str] | None = None  # the public key of each site's node, where they have some
    attempt: int = 1  # how often the run was started

    def save(self, folder: Path) -> None:
        """Writes what a resumed run needs to find the same sites again."""
        facts = {
            "experiment": self.experiment,
            "sites": list(self.sites),
            "examples": list(self.examples),
            "subject": subject_to_note(self.subject),
            "flower": self.flower.model_dump(),
            "keys": self.keys,
            "attempt": self.attempt,
        }
        write_atomically(folder / RECORD, canonical_json(facts))

    @classmethod
    def load(cls, folder: Path) -> Members:
        """The inverse of `save`."""
        try:
            facts = json.loads((folder / RECORD).read_text())
            return cls(
                facts["experiment"],
                tuple(facts["sites"]),
                tuple(facts["examples"]),
                subject_from_note(facts["subject"]),
                Flower.model_validate(facts["flower"]),
                facts["keys"],
                int(facts["attempt"]),
            )
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(
                f"Expected the folder of a run on Flower at {folder}; its {RECORD} cannot be read "
                f"({error}). Give the `flower.out` of the run that was stopped."
            ) from error

    def screen(self, facts: Facts) -> str:
        """Why a site cannot take part once the run has begun; empty if it can."""
        known = dict(zip(self.sites, self.examples, strict=True))
        if facts.site not in known:
            return "the run has begun without it; it can join the next one"
        if facts.examples != known[facts.site]:
            return (
                f"it began with {known[facts.site]} samples and now has {facts.examples}. Bring "
                "its data back as they were, or start a new run"
            )
        return ""
