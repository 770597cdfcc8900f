"""How the sites of a run on Flower are found: who is there, fits together, and is waited for."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

from flr.core.errors import RunError
from flr.data.dataset import TaskSpec
from flr.flower.agreement import ServerData, agree
from flr.flower.handshake import Handshake, in_order
from flr.flower.settings import Flower

log = logging.getLogger("flr")

NAMED = 20  # sites that a line of the log names


@dataclass
class News:
    """Says at once who is there and who does not fit, so that nobody waits in silence for them."""

    least: int
    fit: frozenset[str] = frozenset()
    misfits: dict[str, str] = field(default_factory=dict)

    def tell(self, fit: set[str], misfits: Mapping[str, str]) -> None:
        """Logs what has changed since the last time."""
        for site, reason in misfits.items():
            if self.misfits.get(site) != reason:
                log.warning('site "%s" does not fit the others: %s.', site, reason)
        if fit != self.fit:
            names = f" ({', '.join(in_order(fit))})" if 0 < len(fit) <= NAMED else ""
            log.info("There: %s of %s%s.", len(fit), self.least, names)
        self.fit, self.misfits = frozenset(fit), dict(misfits)


def gather(handshake: Handshake, data: ServerData, flower: Flower) -> TaskSpec:
    """Waits until enough sites that fit together are there; gives what they classify.

    Every site that has answered by then takes part, not only the quickest ones.
    """
    least = flower.min_sites or len(data.expected)
    log.info("Waiting for %s sites, at most %g s.", least, flower.wait)

    def agreed(sites: set[str]) -> tuple[TaskSpec | None, dict[str, str]]:
        return agree(data, [handshake.facts[site] for site in in_order(sites)])

    news = News(least)

    def enough(sites: set[str]) -> bool:
        misfits = agreed(sites)[1]
        news.tell(sites - misfits.keys(), misfits)
        return len(sites) - len(misfits) >= least and not handshake.outstanding()

    there = handshake.wait_for(enough, flower.wait)
    task_spec, misfits = agreed(there)
    fit = in_order(there - misfits.keys())
    for site in handshake.nodes.keys() - set(fit):
        reason = misfits.get(site, "it has gone")
        handshake.refuse(handshake.nodes[site], f'site "{site}"', reason)
        handshake.forget(site)
    if task_spec is None or len(fit) < least:
        raise RunError(
            f"Expected {least} sites within {flower.wait:g} s; {len(fit)} can take part "
            f"({', '.join(fit) or 'none'}). {handshake.complaints()}\n"
            f"{data.advice}; then run again."
        )
    log.info("Sites: %s", ", ".join(fit))
    return task_spec
