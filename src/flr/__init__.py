"""Federated learning when labels are wrong: FLR, its baselines, and what was memorized where.

`flr.run(config)` trains a simulated federation and returns a `Run`; `flr.resume(folder)` goes on
with one. `flr.sweep(study)` runs many that belong together; `flr.compare(runs)` says what they do
together. `flr.audit_labels(labels, features=...)` says which labels look wrong, without any run.
`flr.LabelMixture` is FLR's regulariser for your own training loop. `flr.register`,
`flr.Method`, `flr.Traits` and `flr.Declared` are what a method of your own needs.
"""

from flr.core import bits

bits.prepare()  # before anything imports torch

from flr.audit.label_table import audit_labels  # noqa: E402
from flr.core.contract import Method  # noqa: E402
from flr.core.registry import register  # noqa: E402
from flr.core.traits import Declared, Traits  # noqa: E402
from flr.methods.shared.soft_labels import LabelMixture  # noqa: E402
from flr.report.compare import compare  # noqa: E402
from flr.simulation.api import Run, resume, run  # noqa: E402
from flr.study.api import Sweep, sweep  # noqa: E402

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
