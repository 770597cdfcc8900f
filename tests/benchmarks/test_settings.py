"""results/settings.md is what its study writes from what was found."""

from __future__ import annotations

import json
from typing import Any

from benchmarks.studies import settings
from flr.config import Config, parse
from flr.paper.experiment import load
from flr.study.experiment import Coordinates


def test_the_page_is_of_the_kept_numbers():
    found = json.loads(settings.FOUND.read_text())
    assert settings.PAGE.read_text() == settings.page(found)


def test_no_method_had_more_than_four_settings_and_all_exist():
    for method, tried in settings.TRIED.items():
        assert len(tried) <= 4, method
        for options in tried:
            config({"name": method, **options})


def config(method: dict[str, Any]) -> Config:
    noise = settings.NOISES["symmetric"]
    return parse(
        {**settings.SETTING, "data": {"name": "cifar10"}, "noise": noise, "method": method}
    )


ROWS = {  # whose options are the row's, not the preset's
    "flr": ("fig-dirichlet", "flr", "dir1-0.0-0.8"),
    "er": ("table-regularizers", "er", "sym-0.0-0.8"),
    "em": ("table-regularizers", "em", "sym-0.0-0.8"),
    "nls": ("table-regularizers", "nls", "sym-0.0-0.8"),
    "ts": ("table-regularizers", "ts", "sym-0.0-0.8"),
    "flr+": ("fig-cifar10n", "flr-plus", "worst"),
    "coteaching": ("fig-cifar10n", "coteaching", "worst"),
    "rofl": ("fig-cifar10n", "rofl", "worst"),
}


def test_results_have_the_best_of_what_was_tried():
    found = json.loads(settings.FOUND.read_text())
    # fig-curves, which alone has SLR, has the paper's lam for it
    for method, tried in ((m, t) for m, t in settings.TRIED.items() if m != "slr"):
        scores = [found[f"symmetric, {settings.described(method, options)}"] for options in tried]
        best = tried[max(range(len(tried)), key=lambda at: scores[at]["accuracy"])]
        if method in ROWS:
            name, row, setting = ROWS[method]
            used = load(name).config(Coordinates(row, setting, 1)).method[0].options
        else:
            used = config({"name": method}).method[0].options
        for option in best.keys() - {"name"}:
            assert used[option] == best[option], (method, option)
