"""MLflow's store is read back by MLflow itself."""

from __future__ import annotations

import pytest

import flr
from flr.report.trackers.common import TrackedRun
from flr.report.trackers.mlflow import MLflow


@pytest.fixture(scope="module")
def folder(tmp_path_factory, stopped_and_resumed):
    folder = tmp_path_factory.mktemp("mlflow") / "run"
    assert stopped_and_resumed({"name": "mlflow", "experiment": "mine"}, folder) == []
    return folder


@pytest.fixture
def client(folder, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    from mlflow import MlflowClient

    return MlflowClient(tracking_uri=(folder / "mlflow").as_uri())


def test_a_resumed_run_is_one_run_with_each_round_once(folder, client):
    experiment = client.get_experiment_by_name("mine")
    (run,) = client.search_runs([experiment.experiment_id])
    history = client.get_metric_history(run.info.run_id, "accuracy")
    assert [(m.step, m.value) for m in history] == list(
        {line["round"]: line["accuracy"] for line in flr.Run(folder).metrics}.items()
    )
    assert run.info.status == "FINISHED"
    assert run.info.run_name == "run"


def test_settings_are_its_parameters(client):
    (run,) = client.search_runs([client.get_experiment_by_name("mine").experiment_id])
    assert run.data.params["method.lam"] == "0.5"
    assert run.data.params["rounds"] == "5"
    assert "memorization/client/clean_correct" in run.data.metrics


def test_the_environment_says_where(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "all").as_uri())
    for name in ("one", "two"):
        session = MLflow().session(TrackedRun(tmp_path / name, {}))
        session.log(1, {"accuracy": 0.5})
        session.close()
    from mlflow import MlflowClient

    client = MlflowClient()
    found = client.search_runs([client.get_experiment_by_name("flr").experiment_id])
    assert sorted(run.info.run_name for run in found) == ["one", "two"]
