"""What a method knows of each sample, for the audit: from the state that a site keeps."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from toys import train

from flr.client.state import StateFiles
from flr.engine import checkpoint

TOP_K = {"name": "flr", "table_dtype": "float16", "top_k": 3}
INNER = {"name": "fedcorr", "iterations": 1, "inner": "flr"}


@pytest.mark.parametrize(
    ("method", "views", "kept_by"),
    [
        ("flr", ("global", "local"), "FLR"),
        (TOP_K, ("global", "local"), "FLR"),
        ("local", ("local",), "FLR"),  # its s is an average of local predictions, too
        ("elr", ("local",), "ELR"),
        (["fedprox", "flr"], ("global", "local"), "FLR"),
        (["flr", "dividemix"], ("global", "local"), "FLR"),
        (INNER, ("global", "local"), "FLR"),
    ],
    ids=str,
)
def test_a_method_tells_what_it_has_kept_of_each_sample(method: Any, views, kept_by, tmp_path):
    run = train(method, tmp_path / "run")
    versions = checkpoint.load_all(run.folder / "checkpoint")[0].versions
    states = StateFiles(run.folder / "checkpoint" / "state")
    found = [states.read(site, version) for site, version in versions.items()]
    told = [run.config.build_method().sample_predictions(state, 10) for state in found]
    assert any(one is not None and one.visited.any() for one in told)
    for one in told:
        if one is None:
            continue
        assert (tuple(one.views), one.kept_by) == (views, kept_by)
        for rows in one.views.values():
            assert rows.shape == (len(one.visited), 10)
            sums = rows[one.visited].sum(1)
            torch.testing.assert_close(sums, torch.ones_like(sums), atol=1e-3, rtol=0)


def test_a_method_that_keeps_nothing_tells_nothing(tmp_path):
    run = train("fedavg", tmp_path / "run")
    assert run.config.build_method().sample_predictions({}, 10) is None
