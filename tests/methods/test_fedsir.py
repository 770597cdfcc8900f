"""FedSIR as a whole: who is asked what before which round, and what the server keeps."""

from __future__ import annotations

import pytest
import torch

from flr.aggregate.means import mean
from flr.config import parse
from flr.core.arrays import Arrays
from flr.core.combine import stack
from flr.core.contract import Reply, Server, Task
from flr.core.errors import ConfigError
from flr.methods.fedsir import ALIKE, PARTS, SHARED, FedSIR
from flr.methods.mixup import Mixup
from flr.methods.shared.class_directions import class_directions
from flr.methods.shared.noisy_clients import NOISY

LEVELS = [0.1, 0.12, 0.8, 0.09, 0.82, 0.11]  # how alike: clients 2 and 4 are noisy


class Federation:
    """A server whose clients answer at once; a client's model and u are its level."""

    def __init__(self, lost: tuple[int, ...] = (), silent: str = "") -> None:
        self.method, self.lost, self.silent = FedSIR(relabel_every=2), lost, silent
        self.asked: list[tuple[str, int, tuple[int, ...]]] = []
        self.received: dict[str, Arrays] = {}
        weights = {"model.0.w": torch.zeros(1), "model.0.n": torch.tensor(0)}
        self.s = Server(weights, {}, 5, 6, 6, 1, mean, (10,) * 6)
        self.method.start(self.s)

    def run(self) -> None:
        while (task := self.method.plan(self.s)) is not None:
            self.asked.append((task.name, self.s.round, task.clients))
            self.received[task.name] = task.arrays
            present = [k for k in task.clients if k not in self.lost and task.name != self.silent]
            self.method.reduce(self.s, task, [self.reply(k, task) for k in present])
            self.s.step += 1

    def reply(self, client: int, task: Task) -> Reply:
        level = torch.tensor([LEVELS[client]])
        if task.name == "relabel":
            return Reply(client, 10, {})
        if task.name == "directions":
            found = class_directions(torch.eye(3), torch.arange(3), 3)
            told = {name: part.float() for name, part in zip(PARTS, found, strict=True)}
            return Reply(client, 10, told)
        sent = {"model.0.w": level, "model.0.n": torch.tensor(7 + client)}
        first = {} if task.extra else {ALIKE: torch.cat([level, level.square()])}
        return Reply(client, 10, sent | first)


def test_all_are_identified_and_noisy_ones_relabelled_before_every_second_round():
    f = Federation()
    f.run()
    everyone, clean, noisy = tuple(range(6)), (0, 1, 3, 5), (2, 4)
    assert f.asked == [
        ("fit", 0, everyone),
        ("fit", 0, everyone),
        ("fit", 1, everyone),
        ("directions", 2, clean),
        ("relabel", 2, noisy),
        ("fit", 2, everyone),
        ("fit", 3, everyone),
        ("directions", 4, clean),
        ("relabel", 4, noisy),
        ("fit", 4, everyone),
    ]


def test_relabelling_has_the_clean_clients_mean_and_what_they_agree_on():
    f = Federation()
    f.run()
    for name in ("directions", "relabel"):
        clean = sum(LEVELS[k] for k in (0, 1, 3, 5)) / 4
        assert abs(float(f.received[name]["model.0.w"]) - clean) < 1e-6
    assert torch.equal(f.received["relabel"][SHARED[0]].abs(), torch.eye(3))
    assert not f.received["fit"].keys() & set(SHARED)
    assert not f.s.state.keys() & set(SHARED)


def test_integers_are_those_of_the_first_client():
    f = Federation(lost=(0,))
    f.run()
    assert int(f.s.arrays["model.0.n"]) == 8


def test_who_did_not_answer_counts_as_clean():
    f = Federation(lost=(2,))
    f.run()
    assert f.s.state[NOISY].nonzero().flatten().tolist() == [4]


def test_where_no_clean_client_tells_directions_the_rounds_go_on():
    f = Federation(silent="directions")
    f.run()
    names = [name for name, *_ in f.asked]
    assert (names.count("directions"), names.count("relabel"), f.s.round) == (2, 0, 5)


def test_a_run_in_which_nobody_answers_at_first_has_no_noisy_client():
    f = Federation()
    task = f.method.plan(f.s)
    f.method.reduce(f.s, task, [])
    assert not f.s.state[NOISY].any()
    assert f.method.plan(f.s).name == "fit"


def test_nothing_may_mix_the_samples_whose_labels_are_corrected():
    with pytest.raises(ConfigError, match=r"define batches\(\): choose one"):
        stack([FedSIR(), Mixup()])


def test_a_ramp_that_ends_before_it_begins_is_refused():
    config = parse({"rounds": 10, "method": "fedavg"})
    assert "after ramp_begin = 2" in next(iter(FedSIR(ramp_end=2).check(config)))
    assert not list(FedSIR(ramp_end=3).check(config))
