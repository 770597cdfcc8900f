"""Every random generator of a run, made from (seed, purpose, site, step) and from nothing else.

There is no global generator: the numbers that one purpose draws cannot depend on how many another
purpose drew, on the order in which clients ran, or on the process they ran in.
"""

from __future__ import annotations

import hashlib

import numpy as np
import torch


def derive(seed: int, purpose: str, site: int = 0, step: int = 0) -> int:
    """A 63-bit seed, the same on every machine and in every process (unlike `hash`)."""
    key = f"{seed}/{purpose}/{site}/{step}".encode()
    return int.from_bytes(hashlib.sha256(key).digest()[:8], "big") >> 1


def generator(seed: int, purpose: str, site: int = 0, step: int = 0) -> torch.Generator:
    """A torch generator on the CPU: draws are moved, so that all devices share them."""
    return torch.Generator().manual_seed(derive(seed, purpose, site, step))


def numpy_generator(seed: int, purpose: str, site: int = 0, step: int = 0) -> np.random.Generator:
    """The same for NumPy."""
    return np.random.default_rng(derive(seed, purpose, site, step))
