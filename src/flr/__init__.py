"""Federated learning when labels are wrong: FLR, its baselines, and what was memorized where.

`flr.run(config)` trains a simulated federation and returns a `Run`; `flr.resume(folder)` goes on
with one. `flr.sweep(study)` runs many that belong together; `flr.compare(runs)` says what they do
together. `flr.audit_labels(labels, features=...)` says which labels look wrong, without any run.
`flr.LabelMixture` is FLR's regulariser for your own training loop. `flr.register`,
`flr.Method`, `flr.Traits` and `flr.Declared` are what a method of your own needs.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from flr.core import bits

bits.prepare()  # before anything imports torch

if TYPE_CHECKING:
    from flr.audit.label_table import audit_labels
    from flr.core.contract import Method
    from flr.core.registry import register
    from flr.core.traits import Declared, Traits
    from flr.methods.shared.soft_labels import LabelMixture
    from flr.report.compare import compare
    from flr.simulation.api import Run, resume, run
    from flr.study.api import Sweep, sweep

__all__ = [
    "Declared",
    "LabelMixture",
    "Method",
    "Run",
    "Sweep",
    "Traits",
    "audit_labels",
    "compare",
    "register",
    "resume",
    "run",
    "sweep",
]
__version__ = "0.1.0"

_MODULES = {
    "Declared": "flr.core.traits",
    "LabelMixture": "flr.methods.shared.soft_labels",
    "Method": "flr.core.contract",
    "Run": "flr.simulation.api",
    "Sweep": "flr.study.api",
    "Traits": "flr.core.traits",
    "audit_labels": "flr.audit.label_table",
    "compare": "flr.report.compare",
    "register": "flr.core.registry",
    "resume": "flr.simulation.api",
    "run": "flr.simulation.api",
    "sweep": "flr.study.api",
}


def __getattr__(name: str) -> Any:
    """Imports a public name when it is first used: who only carries messages needs no torch."""
    if name not in _MODULES:
        raise AttributeError(f"module 'flr' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
