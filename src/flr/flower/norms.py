"""How far each site moves the model, and which one moves it much further than the others."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import median

from flr.aggregate.means import update_norms
from flr.client.what_leaves import FIT
from flr.client.worker import ClientResult
from flr.core.contract import MODEL, Task
from flr.engine.federation import Transport
from flr.engine.refuse_replies import fault

log = logging.getLogger("flr")

MUCH = 10.0  # times the median: worth a word
FEWEST = 3  # updates for which a median says anything


@dataclass(frozen=True)
class UpdateNorms:
    """A transport that measures the update in every result, and may refuse the longest ones."""

    inner: Transport
    refuse: float = 0.0  # updates of more than so many times the median; 0: none

    def ask(self, task: Task, versions: Mapping[int, int], predict: bool) -> list[ClientResult]:
        """The results with their norms; one that is too long has a problem."""
        results = self.inner.ask(task, versions, predict)
        if task.name != FIT:
            return results
        measured = [self._measured(task, result) for result in results]
        norms = [r.norm for r in measured if r.norm is not None]
        if len(norms) < FEWEST or not (usual := median(norms)):
            return measured
        return [self._judged(result, usual) for result in measured]

    def name(self, client: int) -> str:
        return self.inner.name(client)

    def _measured(self, task: Task, result: ClientResult) -> ClientResult:
        weights = {n: v for n, v in result.reply.arrays.items() if n.startswith(MODEL)}
        if result.problem or fault(task, weights, {}):
            return result  # the engine refuses it anyway
        names = [n for n, v in weights.items() if v.is_floating_point()]
        return replace(result, norm=float(update_norms([result.reply], task.arrays, names)[0]))

    def _judged(self, result: ClientResult, usual: float) -> ClientResult:
        if result.norm is None or result.norm <= usual * min(MUCH, self.refuse or MUCH):
            return result
        said = (
            f"its update is {result.norm / usual:.3g} times as long as the median of this round's"
        )
        name = self.name(result.reply.client)
        if self.refuse and result.norm > usual * self.refuse:
            problem = f"{said}; flower.refuse-norm allows {self.refuse:g}"
            log.warning("%s: %s.", name, problem)
            return replace(result, problem=problem)
        log.warning("%s: %s. Ask there, or set flower.refuse-norm.", name, said)
        return result
