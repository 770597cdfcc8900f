"""The same model files on two kinds of processor, as far as one can pretend to be another."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from numpy._core import _multiarray_umath as numpy_core

from flr.core import bits, registry

FEW = ["fedavg", "flr", "dividemix", "fedrn"]  # the last two ask scikit-learn, too
CNN = {"name": "cnn", "width": 8}

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

# A processor with AVX2 and no more, for torch, oneDNN, NumPy and OpenBLAS; and a wider one, where
# flr alone says what torch may take. MKL, which torch brings, decides for itself.
WIDE_FEATURES = [
    name for name in numpy_core.__cpu_dispatch__ if "AVX512" in name or name == "X86_V4"
]
AVX2_ONLY = {
    **bits.SETTINGS,
    "NPY_DISABLE_CPU_FEATURES": " ".join(WIDE_FEATURES),
    "OPENBLAS_CORETYPE": "Haswell",
}
WIDER = {bits.ASKED: "portable"}
NARROW = {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41"}


def models(environment: dict[str, str], methods: list[str], folder: Path) -> dict[str, str]:
    """The hash of each method's model file, computed in that environment."""
    free = {k: v for k, v in os.environ.items() if k not in (bits.ASKED, *bits.SETTINGS)}
    path = os.pathsep.join(["tests/contract", *filter(None, [os.environ.get("PYTHONPATH")])])
    networks = json.dumps([None, CNN] if len(methods) <= len(FEW) else [None])
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(folder), json.dumps(methods), networks],
        cwd=Path(__file__).parents[2],
        env={**free, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found


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
