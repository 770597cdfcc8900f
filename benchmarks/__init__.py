"""How fast the engine is beside a plain PyTorch loop and other engines, and studies for results/.

No part of the installed package: run from a checkout, `python -m benchmarks --help`. Nothing is
imported here, so that the reference loop and the peers start without `flr`.
"""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results"
