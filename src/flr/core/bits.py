"""Bits that travel: the same instructions on every processor, so that two machines agree.

torch takes the widest instructions that a processor has, and wider ones add up in another order.
With `FLR_BITS=portable` in the environment, or `bits = "portable"` in a config, it takes AVX2,
which nearly all have. That is decided when torch starts, so it has to be said before. MKL,
NumPy and OpenBLAS choose for themselves in the same way; scikit-learn's mixtures compute with them.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Literal

from flr.core.errors import ConfigError

Bits = Literal["machine", "portable"]

ASKED = "FLR_BITS"
SETTINGS = {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"}
# Of libraries that cannot be asked what they took. NumPy's versions name AVX-512 in several ways.
OTHERS = {
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    "NPY_DISABLE_CPU_FEATURES": (
        "AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR X86_V4"
    ),
    "OPENBLAS_CORETYPE": "Haswell",
}
WIDER = ("AVX512",)  # by torch's names; what has less than AVX2 cannot be made to have more


def prepare() -> None:
    """Sets what torch reads when it starts; called before the package imports it."""
    asked = os.environ.get(ASKED, "machine")
    if asked not in ("machine", "portable"):
        raise ConfigError(
            f'Expected "machine" or "portable" in the environment as {ASKED}, got {asked!r}. '
            "Change it, or remove it for the bits of this machine."
        )
    if asked == "portable":
        os.environ.update(SETTINGS)
        if _has_avx2():  # what is chosen by force is not checked
            for name, value in OTHERS.items():
                os.environ.setdefault(name, value)
        if "torch" in sys.modules:
            require("portable")


def _has_avx2() -> bool:
    """Whether the processor has it; on Linux alone one can see that without NumPy."""
    try:
        return "avx2" in Path("/proc/cpuinfo").read_text().split()
    except OSError:
        return False


def now() -> Bits:
    """Which bits this process computes."""
    import torch

    wide = torch.backends.cpu.get_cpu_capability() in WIDER
    said = all(os.environ.get(key, "").lower() == SETTINGS[key].lower() for key in SETTINGS)
    return "portable" if said and not wide else "machine"


def require(wanted: Bits) -> None:
    """Refuses to compute this machine's bits where portable ones are asked for."""
    if wanted == "portable" and now() != "portable":
        raise ConfigError(
            'Expected to compute portable bits, as bits = "portable" asks; torch was started with '
            f"those of this machine. Set {ASKED}=portable in the environment before Python "
            "starts, or import flr before torch with it set."
        )
