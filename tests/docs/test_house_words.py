"""No module, class or function has a name from before the house was put in order."""

from __future__ import annotations

import runpy
from pathlib import Path

TOOL = Path(__file__).resolve().parents[2] / "tools" / "house_words.py"


def test_no_old_name_comes_back():
    assert list(runpy.run_path(str(TOOL))["found"]()) == []


def test_an_old_name_would_be_found(tmp_path):
    (tmp_path / "engine").mkdir()
    (tmp_path / "engine" / "mail.py").write_text("class Desk:\n    def normalise(self): ...\n")
    tool = runpy.run_path(str(TOOL))
    tool["found"].__globals__["SOURCE"] = tmp_path
    assert [line.split(":")[0] for line in tool["found"]()] == ["engine/mail"] * 3
