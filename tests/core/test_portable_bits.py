"""The same model files on two kinds of processor, as far as one can pretend to be another."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from flr.core import bits, registry

FEW = ["flr", "fedrn"]  # the latter asks scikit-learn, too
CNN = {"name": "cnn", "width": 8}

NUMPY = """
import hashlib, flr, numpy as np
x = np.random.default_rng(0).normal(size=(64, 300))
print(hashlib.sha256(np.exp(x).tobytes() + (x @ x.T).tobytes()).hexdigest())
"""

SCRIPT = """
import json, sys
from pathlib import Path
from toys import bits, train
from flr.report import html, plots
plots.curves = html.run_page = lambda *_: None
folder, methods = Path(sys.argv[1]), json.loads(sys.argv[2])
found = {}
for name in methods:
    for model in json.loads(sys.argv[3]):
        out = folder / f"{len(found)}"
        train_options = {} if model is None else {"train": {"model": model}}
        found[f"{name} {model}"] = bits(train(name, out, **train_options))
print(json.dumps(found))
"""

# A processor with AVX2 and no more, as torch, oneDNN, NumPy and OpenBLAS would see it; and the one
# that is here, where flr says what they may take. (MKL listens on processors of Intel only.)
AVX2_ONLY = {**bits.SETTINGS, **bits.OTHERS}
WIDER = {bits.ASKED: "portable"}
NARROW = {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41"}


def python(environment: dict[str, str], *words: str) -> str:
    """The last line that another Python prints, where nothing else is said of instructions."""
    said = (bits.ASKED, *bits.SETTINGS, *bits.OTHERS)
    free = {k: v for k, v in os.environ.items() if k not in said}
    path = os.pathsep.join(["tests/contract", *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-c", *words],
        cwd=Path(__file__).parents[2],
        env={**free, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


def models(environment: dict[str, str], methods: list[str], folder: Path) -> dict[str, str]:
    """The hash of each method's model file, computed in that environment."""
    networks = json.dumps([None, CNN] if len(methods) <= len(FEW) else [None])
    found: dict[str, str] = json.loads(
        python(environment, SCRIPT, str(folder), json.dumps(methods), networks)
    )
    return found


def test_numpy_has_the_same_bits_on_both():
    assert python(AVX2_ONLY, NUMPY) == python(WIDER, NUMPY)


def test_a_few_methods_have_the_same_bits_on_both(tmp_path):
    narrow = models(AVX2_ONLY, FEW, tmp_path / "narrow")
    assert narrow == models(WIDER, FEW, tmp_path / "wider")
    other = models(NARROW, ["flr"], tmp_path / "other")
    assert all(narrow[name] != digest for name, digest in other.items()), "nothing was compared"


@pytest.mark.full
def test_every_method_has_the_same_bits_on_both(tmp_path):
    own = [
        n for n, e in registry.entries("method").items() if e.factory.__module__.startswith("flr.")
    ]
    narrow = models(AVX2_ONLY, own, tmp_path / "narrow")
    assert narrow == models(WIDER, own, tmp_path / "wider")
