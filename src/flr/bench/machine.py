"""The machine that a benchmark ran on, in words that somebody else can compare with theirs."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path

import torch

_CPUINFO = Path("/proc/cpuinfo")
_RELEASE = Path("/etc/os-release")


@dataclass(frozen=True)
class Machine:
    """What shapes a ratio: processor, cores, memory, torch, system."""

    processor: str
    cores: int
    memory_gb: float
    torch: str
    python: str
    system: str

    def words(self) -> str:
        """One line."""
        return (
            f"{self.processor}, {self.cores} cores, {self.memory_gb:.0f} GB; {self.system}; "
            f"Python {self.python}, torch {self.torch}"
        )


def describe() -> Machine:
    """This machine."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return Machine(
        processor=_value(_CPUINFO, "model name", ":") or platform.processor() or "unknown",
        cores=os.cpu_count() or 1,
        memory_gb=round(memory, 1),
        torch=torch.__version__,
        python=platform.python_version(),
        system=_value(_RELEASE, "PRETTY_NAME", "=") or platform.platform(),
    )


def _value(path: Path, key: str, sign: str) -> str:
    """What a file of keys and values says; empty where it says nothing."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    for line in lines:
        name, found, value = line.partition(sign)
        if found and name.strip() == key:
            return value.strip().strip('"')
    return ""
