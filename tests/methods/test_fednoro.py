"""FedNoRo as a whole: when clients are found noisy, who is told, and how they count."""

from __future__ import annotations

import torch

from flr.aggregate.means import mean
from flr.core.contract import Reply, Server
from flr.methods.fednoro import FedNoRo
from flr.methods.shared.noisy_clients import LOSSES, NOISY

LEVELS = [0.1, 0.12, 2.0, 0.09, 2.1, 0.11]  # clients 2 and 4 are noisy


class Federation:
    """A server whose clients answer at once; the loss of every class is the client's level."""

    def __init__(self, lost: tuple[int, ...] = ()) -> None:
        self.method, self.lost, self.asked = FedNoRo(warmup_rounds=2), lost, []
        weights = {"model.0.w": torch.zeros(1)}
        self.s = Server(weights, {}, 5, 6, 6, 1, mean, (10,) * 6)
        self.method.start(self.s)

    def run(self) -> None:
        while (task := self.method.plan(self.s)) is not None:
            told = {k: bool(extra[NOISY]) for k, extra in task.extra.items()}
            self.asked.append((task.name, self.s.round, told))
            present = [k for k in task.clients if k not in self.lost]
            self.method.reduce(self.s, task, [self.reply(k, task.name) for k in present])
            self.s.step += 1

    def reply(self, client: int, name: str) -> Reply:
        if name == "fit":
            return Reply(client, 10, {"model.0.w": torch.tensor([LEVELS[client]])})
        return Reply(client, 10, {LOSSES: torch.tensor([LEVELS[client], LEVELS[client], -1.0])})


def test_clients_are_asked_once_after_the_warm_up_and_told_in_every_later_round():
    f = Federation()
    f.run()
    assert [(name, at) for name, at, _ in f.asked] == [
        ("fit", 0),
        ("fit", 1),
        ("class-losses", 2),
        ("fit", 2),
        ("fit", 3),
        ("fit", 4),
    ]
    expected = {k: k in (2, 4) for k in range(6)}
    assert [told for *_, told in f.asked] == [{}, {}, {}, expected, expected, expected]


def test_who_did_not_answer_counts_as_clean():
    f = Federation(lost=(2,))
    f.run()
    assert f.s.state[NOISY].nonzero().flatten().tolist() == [4]


def test_noisy_clients_count_less_only_where_both_kinds_answered():
    f = Federation()
    f.run()
    plain = sum(LEVELS) / 6
    assert float(f.s.arrays["model.0.w"]) < plain
    f.method.join(f.s, [f.reply(k, "fit") for k in (2, 4)])
    assert abs(float(f.s.arrays["model.0.w"]) - 2.05) < 1e-6


def test_the_weight_of_the_global_model_grows_after_the_warm_up():
    weights = [FedNoRo().weight_at(r, 100) for r in (17, 30, 49, 99)]
    assert weights == sorted(weights)
    assert weights[-2:] == [0.8, 0.8]
