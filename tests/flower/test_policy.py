"""A site's policy: what it does not agree to, it refuses by its name, and imports nothing."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from direct import DirectGrid, run_config
from flwr.app import Message
from toys import TINY, settings

from flr.config import parse
from flr.config import policy as policies
from flr.config.entry import ConfigEntry
from flr.core.errors import ConfigError, RunError
from flr.flower import consent, ledger, site_cache, wire
from flr.flower.run_spec import RunSpec
from flr.flower.server import serve
from flr.flower.site_config import RefusalError, SiteConfig
from flr.simulation.api import Run

SITES = TINY["partition"]["clients"]
EVERYONE = {"participation": 1.0}


def nodes(folder: Path, **own: Any) -> dict[int, dict[str, Any]]:
    """All sites of the tiny federation; number 1 has something of its own in its node config."""
    found = {k: {"partition-id": k, "state-dir": str(folder / f"{k}")} for k in range(SITES)}
    found[1] |= own
    return found


def policy(folder: Path, text: str) -> Path:
    """Where it says nothing of code, it agrees to the network that all these tests train."""
    text += "" if "code = " in text else '\ncode = ["toys:batchnorm_net"]'
    path = folder / policies.NAME
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "method", "reason"),
    [
        ('methods = ["flr"]', "fedavg", "agrees to the methods flr; this run has fedavg"),
        ("methods = []", "fedavg", "agrees to no methods; this run has fedavg"),
        ('methods = ["flr"]', ["flr", "mixup"], "the methods flr; this run has mixup"),
        (
            'methods = ["fedcorr"]',
            {"name": "fedcorr", "inner": "flr", "iterations": 1},
            "the methods fedcorr; this run has flr",
        ),
        ('tasks = ["fit"]', "fedcorr", "agrees to the tasks fit; this run has correct"),
        ('arrays = ["weights"]', "fedrn", "this run has fedrn.expertise, fedrn.output"),
        ('arrays = ["fedrn.output"]', "fedavg", "this run has weights"),
        (f"rounds = {TINY['rounds'] - 1}", "fedavg", f"this run has {TINY['rounds']}"),
    ],
)
def test_what_a_site_does_not_agree_to_leaves_it_out(text, method, reason, tmp_path, caplog):
    policy(tmp_path / "1", text)
    with pytest.raises(RunError) as caught:
        serve(DirectGrid(nodes(tmp_path)), run_config(settings(method), tmp_path / "r", wait=0.3))
    told = " ".join(str(caught.value).split())
    assert 'site "site-1": its policy agrees to' in told
    assert reason in told
    assert any("site-1 refused: its policy" in r.getMessage() for r in caplog.records)
    (line, *_) = ledger.read(tmp_path / "1").lines
    assert reason in line.note["problem"]


@pytest.mark.parametrize(
    "method", ["fedcorr", "flr+", {"name": "fedcorr", "inner": "flr", "iterations": 1}]
)
def test_what_it_agrees_to_goes_on_as_without(method, tmp_path):
    text = (
        'methods = ["fedcorr", "fedavg", "flr", "flr+"]\ntasks = ["fit", "correct"]\n'
        'arrays = ["weights", "fedcorr.lid", "fedcorr.level"]\nrounds = 10\nreplies = 99'
    )
    policy(tmp_path / "1", text)
    serve(DirectGrid(nodes(tmp_path)), run_config(settings(method), tmp_path / "run"))
    assert {c["status"] for c in Run(tmp_path / "run").clients} == {"ok"}


def test_methods_inside_others_count_too():
    inner = {"name": "fedcorr", "inner": ["flr", {"name": "fedprox"}], "iterations": 1}
    config = parse(settings(inner, train={"model": "mlp"}))
    (reason,) = policies.objections(policies.Policy(methods=("fedcorr",)), config)
    assert reason == "its policy agrees to the methods fedcorr; this run has flr, fedprox"


def test_the_run_goes_on_without_a_site_that_does_not_agree(tmp_path, caplog):
    policy(tmp_path / "1", "methods = []")
    config = run_config(settings("fedavg"), tmp_path / "run", min_sites=SITES - 1)
    serve(DirectGrid(nodes(tmp_path)), config)
    run = Run(tmp_path / "run")
    assert len(run.metrics) == TINY["rounds"]
    assert "site-1" not in {c["site"] for c in run.clients}
    assert 'Left out: site "site-1": its policy agrees to no methods' in caplog.text


def test_a_site_counts_its_replies_itself(tmp_path):
    policy(tmp_path / "1", "replies = 2")
    config = settings("fedavg", train=EVERYONE)
    serve(DirectGrid(nodes(tmp_path)), run_config(config, tmp_path / "run"))
    run = Run(tmp_path / "run")
    assert len(run.metrics) == TINY["rounds"]
    mine = [(c["status"], c["reason"]) for c in run.clients if c["site"] == "site-1"]
    refusal = "its policy agrees to 2 replies; so many have left it"
    assert mine == [("ok", "")] * 2 + [("refused", refusal)] * (TINY["rounds"] - 2)
    assert ledger.replies(tmp_path / "1", "site-1", ledger.read(tmp_path / "1").lines[0].run) == 2


def test_what_leaves_at_once_has_a_size(tmp_path):
    policy(tmp_path / "1", "bytes = 1000")
    config = settings("fedavg", train=EVERYONE)
    serve(DirectGrid(nodes(tmp_path)), run_config(config, tmp_path / "run"))
    mine = {c["reason"][:45] for c in Run(tmp_path / "run").clients if c["site"] == "site-1"}
    assert mine == {"its policy agrees to replies of 1000 bytes; t"}
    lines = ledger.read(tmp_path / "1").lines
    assert not any(line.weights for line in lines)


def test_what_leaves_in_an_hour_is_counted_over_all_runs(tmp_path):
    policy(tmp_path / "1", "per_hour = 5")
    config = settings("fedavg", train=EVERYONE)
    for run in ("a", "b"):
        serve(DirectGrid(nodes(tmp_path)), run_config(config, tmp_path / run))
    mine = [c["status"] for c in Run(tmp_path / "b").clients if c["site"] == "site-1"]
    assert mine == ["ok"] + ["refused"] * (TINY["rounds"] - 1)
    later = datetime.now(UTC) + timedelta(minutes=1)
    assert ledger.replies(tmp_path / "1", "site-1") == 5
    assert ledger.replies(tmp_path / "1", "site-1", since=later) == 0


def test_a_policy_may_change_while_a_run_goes_on(tmp_path, monkeypatch):
    grid = DirectGrid(nodes(tmp_path))
    push = grid.push_messages

    def forbid(messages: Any) -> list[str]:
        numbers = push(messages)
        if len(grid.messages) > 2 * SITES:
            policy(tmp_path / "1", "tasks = []")
        return numbers

    monkeypatch.setattr(grid, "push_messages", forbid)
    serve(grid, run_config(settings("fedavg", train=EVERYONE), tmp_path / "run"))
    mine = [c["reason"] for c in Run(tmp_path / "run").clients if c["site"] == "site-1"]
    assert mine[0] == ""
    assert mine[-1] == "its policy agrees to no tasks; this run has fit"


UNWELCOME: list[dict[str, Any]] = [
    {"train": {"model": "unwelcome:it"}},
    {"train": {"model": {"name": "unwelcome:it", "partitioner": "mine:network"}}},
    {"train": {"model": {"name": "backbone", "backbone": "unwelcome:it"}}},
    {"train": {"model": "mlp"}, "data": {"backbone": "unwelcome:it"}},
    {"train": {"model": "mlp"}, "partition": {"kind": "unwelcome:it", "clients": SITES}},
]


@pytest.mark.parametrize("changes", UNWELCOME, ids=str)
@pytest.mark.parametrize("text", ["", 'code = ["mine:network"]'])
@pytest.mark.parametrize("kind", ["query.hello", "train"])
def test_code_is_not_imported_unless_a_site_names_it(kind, text, changes, tmp_path, monkeypatch):
    """Whatever names it: a network, one inside another, a backbone, a partitioner."""
    (tmp_path / "unwelcome.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / policies.NAME
    path.write_text(text)
    task = {"client": 1, "step": 1, "round": 0, "rounds": 4, "version": None, "task": "fit"}
    note = {
        "experiment": "0" * 16,
        "config": settings("fedavg", **changes),
        "classes": None,
        "subject": None,
        "order": {**task, "keep": [], "attempt": 1},
    }
    grid = DirectGrid(nodes(tmp_path, policy=str(path)))
    (number,) = grid.push_messages([Message(wire.write(note, {}), 1, kind)])
    told, _ = wire.read(grid.pull_messages([number])[0].content)
    assert told["site"] == "site-1"
    agreed = "mine:network" if text else "none"
    assert (
        f"its policy names ({agreed}) and no other; this run has unwelcome:it." in told["problem"]
    )
    assert "unwelcome" not in sys.modules


def test_a_site_without_a_policy_imports_nothing(tmp_path):
    own = SiteConfig(**{"site": "ward-7", "state-dir": tmp_path})
    with pytest.raises(RefusalError, match="this run has toys:batchnorm_net"):
        consent.require(own, RunSpec("0" * 16, settings("fedavg")))
    consent.require(own, RunSpec("0" * 16, settings("fedavg", train={"model": "mlp"})))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("rounds = 0", "line 1: rounds = 0 should be a whole number, at least 1"),
        ('methods = "flr"', 'methods = "flr" should be a list, each item text in quotes'),
        ('methods = ["fedvag"]', 'methods[0] = "fedvag" is not known. Did you mean "fedavg"?'),
        ("round = 5", 'line 1: round is not known. Did you mean "rounds"?'),
        ("tasks = [", "line 1"),
    ],
)
def test_a_broken_policy_agrees_to_nothing(text, reason, tmp_path, caplog):
    path = policy(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        policies.load(path)
    assert reason in str(caught.value) or reason == "line 1"
    grid = DirectGrid(nodes(tmp_path, policy=str(path)))
    with pytest.raises(RunError, match='site "site-1": its policy cannot be read'):
        serve(grid, run_config(settings("fedavg"), tmp_path / "run", wait=0.3))
    assert str(path) in caplog.text


def test_a_policy_that_is_named_and_missing_agrees_to_nothing(tmp_path):
    grid = DirectGrid(nodes(tmp_path, policy=str(tmp_path / "none.toml")))
    with pytest.raises(RunError, match='site "site-1": its policy cannot be read'):
        serve(grid, run_config(settings("fedavg"), tmp_path / "run", wait=0.3))


@pytest.mark.parametrize("allowed", [True, False])
@pytest.mark.parametrize("backbone", ["timm:resnet50", "efficientnet-lite0"])
def test_backbones_by_name_or_collection(backbone, allowed):
    """As entries, because the packages that some need are not everywhere."""
    name, _, model = backbone.partition(":")
    entry = ConfigEntry("backbone", name, {"model": model} if model else {})
    plain = parse(settings("fedavg", train={"model": "mlp"}))
    data = plain.data.model_copy(update={"backbone": entry})
    settled = plain.model_copy(update={"data": data})
    for agreed in (backbone, name) if allowed else ("minilm", "timm:resnet18"):
        policy = policies.Policy(backbones=(agreed,))
        assert (not list(policies.objections(policy, settled))) == allowed


def test_no_file_that_a_server_names_is_read_where_sites_have_their_own(tmp_path, monkeypatch):
    read: list[Any] = []
    monkeypatch.setattr(site_cache, "scenario", lambda *args: read.append(args))
    own = {5: {"site": "ward-7", "data": str(tmp_path), "state-dir": str(tmp_path)}}
    with pytest.raises(RunError, match='site "ward-7": the run deals out'):
        serve(DirectGrid(own), run_config(settings("fedavg"), tmp_path / "run", wait=0.3))
    assert not read
