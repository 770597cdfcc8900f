"""Federated learning when labels are wrong: FLR, its baselines, and what was memorized where.

`flr.run(config)` trains a simulated federation and returns a `Run`; `flr.resume(folder)` goes on
with one. `flr.LabelMixture` is FLR's regulariser for your own training loop. `flr.register`,
`flr.Method` and `flr.Declared` are what a method of your own needs.
"""

from flr.client.memory import LabelMixture
from flr.contract import Declared, Method
from flr.registry import register
from flr.session import Run, resume, run

__all__ = ["Declared", "LabelMixture", "Method", "Run", "register", "resume", "run"]
__version__ = "0.1.0"
