"""The data set, partition, noise and models of the how-to, and the method of `flr.plugin`, run."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
import textwrap

import pytest

from flr import plugin

PAGE = "docs/how-to/add-data-noise-or-model.md"
CONFIG = {"rounds": 5, "workers": 1, "method": "split", "train": {"participation": 1.0}}

# Registered names would stay in this process, where other tests meet them.
REFUSED = """
import pytest
for change in ({"method": ["flr", "mixup"]}, {"method": "fedlsr"}, {"noise": "features"}):
    with pytest.raises(flr.plugin.ConfigError, match="numbers of tokens, and a number between"):
        flr.run({**config, "data": "orders", "train": {"model": "bag-of-words"}, **change})
with pytest.raises(flr.plugin.ConfigError, match="should take numbers of tokens"):
    flr.run({**config, "data": "orders"})
model = texts.model()
assert model.probabilities(torch.tensor([[0, 9, 9, 9, 9, 9, 9, 9]])).shape == (1, 3)
"""


def run(code: str, folder) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done


def test_the_page_runs_and_what_it_says_is_refused_is_refused(blocks, tmp_path):
    done = run("\n".join([*blocks(PAGE, "python"), REFUSED]), tmp_path)
    noise, accuracy = map(float, done.stdout.split())
    assert 0.3 < noise < 1
    assert 0 <= accuracy <= 1


def test_the_example_of_the_module_trains(tmp_path):
    (code,) = re.findall(r"```python\n(.*?)```", inspect.getdoc(plugin) or "", re.S)
    run(f"{textwrap.dedent(code)}\nimport flr\nflr.run({CONFIG!r}, out='run')", tmp_path)


@pytest.mark.parametrize("name", plugin.__all__)
def test_every_name_says_what_it_is(name):
    found = getattr(plugin, name)
    if inspect.isclass(found) or inspect.isfunction(found):
        assert inspect.getdoc(found)
