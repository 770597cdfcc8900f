"""What is written of a round, when, and what survives a kill."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from flr.core.arrays import Arrays
from flr.core.errors import DataError
from flr.core.observers import ClientOutcome, Observer, RoundEnd, RoundScore
from flr.data.dataset import Ragged, SiteTable
from flr.report import jsonl
from flr.report.recorder import per_class_accuracy, truncate
from flr.report.truth_recorder import TruthRecorder

# inputs are their own true class; site 1 holds two wrong labels, site 2 shares sample 0 with site 0
X = torch.tensor([[0.0], [1.0], [2.0], [0.0], [1.0]])
SITES = [torch.tensor([0, 1]), torch.tensor([2, 3, 4]), torch.tensor([0])]
TRUE = [torch.tensor([0, 1]), torch.tensor([2, 0, 1]), torch.tensor([0])]
GIVEN = [torch.tensor([0, 1]), torch.tensor([2, 1, 2]), torch.tensor([0])]


class Predictor:
    """Answers input + shift, and counts the samples it was shown."""

    def __init__(self, sites: Tensor = X) -> None:
        self.views = {"test": torch.tensor([[0.0], [1.0], [1.0]]), "sites": sites}
        self.seen = 0

    def __call__(self, model: Arrays, view: str, rows: Tensor) -> Tensor:
        self.seen += len(rows)
        return (self.views[view][rows, 0].long() + int(model["shift"])) % 3


def make(folder: Path, **changes: Any) -> TruthRecorder:
    values: dict[str, Any] = {
        "predict": Predictor(),
        "test_y": torch.tensor([0, 1, 0]),
        "classes": ("a", "b", "c"),
        "table": SiteTable(X, Ragged.of(SITES), Ragged.of(GIVEN), 3),
        "true": TRUE,
        "nominal": (0.0, 0.7, 0.0),
        "rounds": 100,
        "every": 5,
        "memorization_every": 10,
    }
    return TruthRecorder(folder=folder, **(values | changes))


def outcome(client: int, status: str = "ok", predictions: list[int] | None = None) -> ClientOutcome:
    wire = None if predictions is None else torch.tensor(predictions, dtype=torch.int16)
    reason = "why" if status == "refused" else ""
    return ClientOutcome(client, len(GIVEN[client]), status, reason, 0.1, 10, 20, wire)


def end(number: int, *outcomes: ClientOutcome, shift: int = 0) -> RoundEnd:
    return RoundEnd(number, 100, {"shift": torch.tensor(shift)}, outcomes, 0.5)


def test_is_an_observer(tmp_path: Path) -> None:
    observer: Observer = make(tmp_path)
    assert [n for n in range(1, 101) if observer.wants_predictions(n)] == [
        *range(10, 91, 10),
        *range(91, 101),
    ]


def test_a_measured_round(tmp_path: Path) -> None:
    recorder = make(tmp_path)
    recorder.round_end(
        end(10, outcome(0, predictions=[0, 1]), outcome(1, predictions=[2, 1, 0]),
            outcome(2, "dropped"), shift=0)
    )  # fmt: skip
    (line,) = jsonl.read(tmp_path / "metrics.jsonl")
    assert (line["round"], line["participants"], line["dropped"]) == (10, [0, 1], [2])
    assert (line["bytes_up"], line["bytes_down"]) == (60, 30)
    assert line["accuracy"] == pytest.approx(2 / 3)
    assert line["accuracy_per_class"] == {"a": 0.5, "b": 1.0, "c": None}

    found = line["memorization"]
    assert found["server"]["noisy_correct"] == found["server"]["clean_correct"] == 1.0
    assert found["client"]["noisy_memorized"] == found["client"]["noisy_wrong"] == 0.5
    assert found["client"]["clean_correct"] == 1.0
    assert found["client_noisy"]["noisy_memorized"] == 0.5


def test_the_client_mean_is_unweighted_and_of_those_who_have_such_samples(tmp_path: Path) -> None:
    recorder = make(tmp_path)
    recorder.round_end(
        end(10, outcome(0, predictions=[1, 1]), outcome(1, predictions=[2, 1, 2]),
            outcome(2, predictions=[0]))
    )  # fmt: skip
    found = jsonl.read(tmp_path / "metrics.jsonl")[0]["memorization"]
    assert found["client"]["clean_correct"] == pytest.approx((0.5 + 1 + 1) / 3)
    assert found["client_noisy"]["clean_correct"] == 1.0
    assert found["client"]["noisy_memorized"] == 1.0


def test_clients_are_written_one_by_one(tmp_path: Path) -> None:
    recorder = make(tmp_path)
    recorder.round_end(end(10, outcome(0, "refused", [9, 9]), outcome(1, predictions=[2, 1, 2])))
    refused, ok = jsonl.read(tmp_path / "clients.jsonl")
    assert (refused["status"], refused["reason"], refused["memorization"]) == (
        "refused",
        "why",
        None,
    )
    assert ok["noise"] == {"nominal": 0.7, "realised": pytest.approx(2 / 3)}
    assert ok["memorization"]["noisy_memorized"] == 1.0
    (line,) = jsonl.read(tmp_path / "metrics.jsonl")
    assert line["refused"] == [{"client": 0, "reason": "why"}]
    assert line["memorization"]["client"]["clean_correct"] == 1.0  # the refused one does not count


def test_nothing_is_measured_when_it_is_not_due(tmp_path: Path) -> None:
    recorder = make(tmp_path)
    for number in (1, 2, 5, 91):
        recorder.round_end(end(number, outcome(0)))
    first, second, fifth, late = jsonl.read(tmp_path / "metrics.jsonl")
    assert "accuracy" in first
    assert "memorization" not in first
    assert "accuracy" not in second
    assert "accuracy" in fifth
    assert late["memorization"]["client"] == dict.fromkeys(late["memorization"]["client"])


def test_with_zero_nothing_is_ever_measured(tmp_path: Path) -> None:
    predict = Predictor(X)
    recorder = make(tmp_path, predict=predict, every=0, memorization_every=0)
    for number in (1, 10, 100):
        assert not recorder.wants_predictions(number)
        recorder.round_end(end(number, outcome(0)))
    assert predict.seen == 0
    for line in jsonl.read(tmp_path / "metrics.jsonl"):
        assert not {"accuracy", "memorization"} & line.keys()


def test_each_sample_is_predicted_once(tmp_path: Path) -> None:
    x = torch.cat([X, torch.zeros(7, 1)])  # seven samples that no site holds
    predict = Predictor(x)
    recorder = make(
        tmp_path, predict=predict, table=SiteTable(x, Ragged.of(SITES), Ragged.of(GIVEN), 3)
    )
    recorder.round_end(end(10))
    assert predict.seen == 5 + 3  # held by sites, and the test set


def test_an_empty_test_set_and_a_round_of_nobody(tmp_path: Path) -> None:
    recorder = make(tmp_path, test_y=torch.empty(0, dtype=torch.int64))
    recorder.round_end(end(100))
    text = (tmp_path / "metrics.jsonl").read_text()
    line = json.loads(text, parse_constant=pytest.fail)
    assert line["accuracy"] is None
    assert line["participants"] == []


def test_trackers_and_progress_get_the_numbers(tmp_path: Path) -> None:
    logged: list[tuple[int, dict[str, float]]] = []
    told: list[dict[str, Any]] = []

    class Memory:
        def log(self, round: int, values: dict[str, float]) -> None:
            logged.append((round, values))

        def close(self) -> None: ...

    make(tmp_path, trackers=[Memory()], on_round=told.append).round_end(end(10, outcome(0)))
    ((number, values),) = logged
    assert number == told[0]["round"] == 10
    assert values["accuracy"] == told[0]["accuracy"]
    assert values["memorization/server/noisy_correct"] == 1.0
    assert "memorization/client/noisy_correct" not in values  # None is not a number


def test_accuracy_of_a_class_without_samples_is_none() -> None:
    predicted, true = torch.tensor([0, 0, 1]), torch.tensor([0, 1, 1])
    assert per_class_accuracy(predicted, true, 3) == [1.0, 0.5, None]


def test_closing_closes_the_trackers(tmp_path: Path) -> None:
    closed = []

    class Once:
        def log(self, round: int, values: dict[str, float]) -> None: ...

        def close(self) -> None:
            closed.append(self)

    make(tmp_path, trackers=[Once(), Once()]).close()
    assert len(closed) == 2


def test_true_labels_of_another_scenario_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="Expected true labels for 6 samples"):
        make(tmp_path, true=TRUE[:2]).round_end(end(1, outcome(0)))


def test_rates_count_every_sample_once(tmp_path: Path) -> None:
    noise = make(tmp_path).noise
    assert noise.nominal == pytest.approx(0.7 * 3 / 6)
    assert noise.realised == pytest.approx(2 / 6)
    assert noise.site_realised == (0.0, pytest.approx(2 / 3), 0.0)


@pytest.mark.parametrize("torn", ["", '{"round": 4, "acc', '{"round": 4}', "\x00\x00"])
def test_truncate_drops_later_rounds_and_a_torn_line(tmp_path: Path, torn: str) -> None:
    recorder = make(tmp_path)
    for number in (1, 2, 3):
        recorder.round_end(end(number, outcome(0), outcome(1)))
    wanted = {
        name: b"".join((tmp_path / name).read_bytes().splitlines(keepends=True)[:count])
        for name, count in (("metrics.jsonl", 2), ("clients.jsonl", 4))
    }
    for name in wanted:
        with (tmp_path / name).open("a") as file:
            file.write(torn)
    truncate(tmp_path, 2)
    assert {name: (tmp_path / name).read_bytes() for name in wanted} == wanted

    recorder.round_end(end(3, outcome(0)))
    assert [line["round"] for line in jsonl.read(tmp_path / "metrics.jsonl")] == [1, 2, 3]


def test_truncate_of_nothing_is_nothing(tmp_path: Path) -> None:
    truncate(tmp_path, 0)
    assert list(tmp_path.iterdir()) == []


def test_a_spoilt_line_in_the_middle_is_named(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"round": 1}\noops\n{"round": 3}\n')
    with pytest.raises(DataError, match="line 2"):
        jsonl.read(path)


def test_nan_is_never_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        jsonl.append(tmp_path / "a.jsonl", [{"value": float("nan")}])


def test_metrics_of_a_round_that_is_measured(tmp_path: Path) -> None:
    names = ("balanced-accuracy", "auroc", "worst-site", "site-accuracy")

    def logits(model: Arrays, view: str, rows: Tensor) -> Tensor:
        return torch.eye(3)[Predictor()(model, view, rows)]

    recorder = make(tmp_path, metrics=names, logits=logits)
    recorder.round_end(end(1))
    recorder.round_end(end(2))
    recorder.round_end(end(5, shift=1))
    first, second, fifth = jsonl.read(tmp_path / "metrics.jsonl")
    assert first["accuracy"] == pytest.approx(2 / 3)
    assert first["metrics"] == {
        "balanced-accuracy": 0.75,
        "auroc": None,  # class c is not in the test set
        "worst-site": 1.0,
        "site-accuracy": [1.0, 1.0, 1.0],
    }
    assert "metrics" not in second
    assert fifth["metrics"]["site-accuracy"] == [0.0, 0.0, 0.0]


def test_nothing_of_sites_where_the_true_labels_are_not_known(tmp_path: Path) -> None:
    recorder = make(tmp_path, metrics=("macro-f1", "worst-site"), verified=False)
    recorder.round_end(end(1))
    assert set(jsonl.read(tmp_path / "metrics.jsonl")[0]["metrics"]) == {"macro-f1"}


def test_the_best_round_by_held_out_labels_is_measured_whenever_it_comes(tmp_path: Path) -> None:
    recorder = make(tmp_path, every=50)
    for number, best in ((2, False), (3, True)):
        event = end(number, outcome(0))
        score = RoundScore(right=3, samples=4, best=best, bytes_down=100, bytes_up=200)
        recorder.round_end(RoundEnd(number, 100, event.model, event.outcomes, 0.5, score))
    second, third = jsonl.read(tmp_path / "metrics.jsonl")
    assert second["validation"] == {"accuracy": 0.75, "right": 3, "samples": 4}
    assert "accuracy" not in second
    assert "accuracy" in third
    assert (third["bytes_up"], third["bytes_down"]) == (220, 110)
