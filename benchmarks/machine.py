"""The machine that a benchmark ran on, in words that somebody else can compare with theirs."""

from __future__ import annotations

import platform
import re
from dataclasses import dataclass
from pathlib import Path

import psutil
import torch


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
    return Machine(
        processor=_processor() or platform.processor() or "unknown",
        cores=psutil.cpu_count() or 1,
        memory_gb=round(psutil.virtual_memory().total / 2**30, 1),
        torch=torch.__version__,
        python=platform.python_version(),
        system=_distribution() or platform.platform(),
    )


def _processor() -> str:
    """The model's name, which Python and psutil do not tell on Linux."""
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.M)
    except OSError:
        return ""
    return found[1].strip() if found else ""


def _distribution() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "")
    except OSError:
        return ""
