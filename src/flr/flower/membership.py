"""Which sites take part in a run on Flower: settled at its start, the same after a resume."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from flr.aggregate.claims import PARTS, capped
from flr.core import seal
from flr.core.arrays import write_atomically
from flr.core.errors import DataError
from flr.core.plain_text import plain
from flr.data.dataset import TaskSpec
from flr.flower.answers import SiteFacts
from flr.flower.run_spec import task_from_note, task_to_note
from flr.flower.settings import Flower

log = logging.getLogger("flr")

RECORD = "federation.json"


@dataclass(frozen=True)
class Membership:
    """The experiment, its sites in order with their sizes, and what they classify."""

    experiment: str
    sites: tuple[str, ...]
    examples: tuple[int, ...]
    task_spec: TaskSpec
    flower: Flower
    keys: dict[str, str] | None = None  # the public key of each site's node, where they have some
    attempt: int = 1  # how often the run was started

    def save(self, folder: Path) -> None:
        """Writes what a resumed run needs to find the same sites again."""
        facts = {**vars(self), "flower": self.flower.model_dump()}
        facts["subject"] = task_to_note(facts.pop("task_spec"))
        write_atomically(folder / RECORD, seal.signed(facts), sync=True)

    @classmethod
    def load(cls, folder: Path) -> Membership:
        """The inverse of `save`."""
        try:
            text = (folder / RECORD).read_text()
            facts = seal.unverified(text)
            if "digest" in facts:  # an older version wrote none
                facts = seal.unsigned(text)
            facts["task_spec"] = task_from_note(facts.pop("subject"))
            return TypeAdapter(cls).validate_python(facts)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(
                f"Expected the folder of a run on Flower at {folder}; its {RECORD} cannot be read "
                f"({error}). Give the `flower.out` of the run that was stopped."
            ) from error

    @property
    def counted(self) -> tuple[int, ...]:
        """How many samples of each site count; what sites with own data claim, nobody can check."""
        return capped(self.examples) if self.flower.own_data else self.examples

    def warn_of_large_claims(self) -> None:
        """Names the sites that would have too much of a say, and what to do about it."""
        for site, claimed, counted in zip(self.sites, self.examples, self.counted, strict=True):
            if counted < claimed:
                log.warning(
                    'site "%s" says that it has %s of %s samples; it counts as if it had %s, one '
                    "part in %s of what counts. If it is right and you trust it, split its data "
                    "between several nodes; if sizes should not matter, use "
                    'aggregate = "unweighted".',
                    site,
                    claimed,
                    sum(self.examples),
                    counted,
                    PARTS,
                )

    def screen(self, facts: SiteFacts) -> str:
        """Why a site cannot take part once the run has begun; empty if it can."""
        if facts.site not in self.sites:
            return "the run has begun without it; it can join the next one"
        return self.other_size(self.sites.index(facts.site), facts.examples)

    def other_size(self, client: int, examples: object) -> str:
        """Why a site that says it has so many samples cannot go on; empty if it can."""
        if examples == self.examples[client]:
            return ""
        return (
            f"it began with {self.examples[client]} samples and now has {plain(examples)}. Bring "
            "its data back as they were, or start a new run"
        )
