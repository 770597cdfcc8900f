"""FedProx and FedDyn against outputs of the authors' code, step by step and through the hooks."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from flr.aggregate import mean
from flr.core.contract import Reply, Server
from flr.methods.feddyn import FedDyn, dynamic_penalty, local_alpha, server_update, updated_h
from flr.methods.fedprox import proximal


def double(values) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def linear(parameters) -> nn.Linear:
    """The recorded network, 3 -> 3, from [weight row by row, bias]."""
    network = nn.Linear(3, 3).double()
    flat = double(parameters)
    network.weight.data, network.bias.data = flat[:9].view(3, 3).clone(), flat[9:].clone()
    return network


def flat(named) -> torch.Tensor:
    return torch.cat([double(named["weight"]).flatten(), double(named["bias"])])


def flattened(network) -> torch.Tensor:
    return torch.cat([w.detach().flatten() for w in network.parameters()])


def steps(network, x, y, recorded, term) -> None:
    """Local training as recorded: full batch, clipped, with weight decay."""
    optimizer = torch.optim.SGD(
        network.parameters(), recorded["lr"], weight_decay=recorded["weight_decay"]
    )
    for _ in range(recorded["local_epochs"]):
        optimizer.zero_grad()
        (F.cross_entropy(network(x), y) + term(list(network.parameters()))).backward()
        nn.utils.clip_grad_norm_(network.parameters(), recorded["max_grad_norm"])
        optimizer.step()


def test_fedprox_takes_the_recorded_steps(golden):
    recorded = golden("fedprox")
    x, y = double(recorded["x"]), torch.tensor(recorded["y"])
    for case in recorded["cases"]:
        network = linear(flat(recorded["init"]).tolist())
        server = list(linear(case["server_params"]).parameters())
        steps(network, x, y, recorded, lambda w, s=server, mu=case["mu"]: proximal(w, s, mu))
        torch.testing.assert_close(
            flattened(network), double(case["local_params_out"]), atol=1e-7, rtol=0
        )


def test_fedprox_is_squared_over_all_parameters_at_once():
    w, w_srv = [double([3.0, 1.0]), double([[2.0]])], [double([1.0, 1.0]), double([[5.0]])]
    assert proximal(w, w_srv, 0.5).item() == pytest.approx(0.25 * (4 + 9))


def test_feddyn_trains_and_aggregates_as_recorded(golden):
    recorded = golden("feddyn")
    sizes = [len(y) for y in recorded["client_y"]]
    data = [
        (double(x), torch.tensor(y))
        for x, y in zip(recorded["client_x"], recorded["client_y"], strict=True)
    ]
    for case in recorded["cases"]:
        cloud = flat(recorded["init"])
        sum_h = torch.zeros_like(cloud)
        h = [torch.zeros_like(cloud) for _ in sizes]
        calls = iter(case["client_calls"])
        for rounds in case["rounds"]:
            trained = []
            for k in rounds["selected"]:
                call = next(calls)
                alpha_k = local_alpha(recorded["alpha_coef"], sizes[k], sum(sizes) / len(sizes))
                assert alpha_k == pytest.approx(call["alpha_adapted"], abs=1e-12)
                torch.testing.assert_close(h[k], double(call["h_local_in"]), atol=1e-6, rtol=0)
                network, received = (
                    linear(cloud.tolist()),
                    list(linear(cloud.tolist()).parameters()),
                )
                past = list(linear(h[k].tolist()).parameters())
                steps(
                    network,
                    *data[k],
                    recorded,
                    lambda w, a=received, b=past, c=alpha_k: dynamic_penalty(w, a, b, c),
                )
                trained.append(flattened(network))
                torch.testing.assert_close(
                    trained[-1], double(call["local_params_out"]), atol=1e-6, rtol=0
                )
                h[k] = updated_h(h[k], trained[-1], cloud)
            avg, sum_h, cloud = server_update(trained, cloud, sum_h, len(sizes))
            torch.testing.assert_close(avg, flat(rounds["avg_model"]), atol=1e-6, rtol=0)
            torch.testing.assert_close(cloud, flat(rounds["cloud_model"]), atol=1e-6, rtol=0)
            torch.testing.assert_close(sum_h, torch.stack(h).sum(0), atol=1e-12, rtol=0)
        torch.testing.assert_close(torch.stack(h), double(rounds["h_all"]), atol=1e-6, rtol=0)


def feddyn_server() -> Server:
    names = {"model.0.w": torch.tensor([1.0, 2.0]), "model.0.running_var": torch.tensor([1.0])}
    buffers = {"model.0.running_var", "model.0.num_batches_tracked"}
    return Server(
        names | {"model.0.num_batches_tracked": torch.tensor(0)},
        {},
        rounds=5,
        clients=4,
        per_round=2,
        seed=1,
        aggregate=mean,
        examples=(10, 30, 20, 20),
        buffers=frozenset(buffers),
    )


def reply(client, examples, w, variance, counter) -> Reply:
    arrays = {
        "model.0.w": torch.tensor(w),
        "model.0.running_var": torch.tensor([variance]),
        "model.0.num_batches_tracked": torch.tensor(counter),
    }
    return Reply(client, examples, arrays)


def test_feddyn_sends_the_cloud_and_evaluates_the_average():
    s, method = feddyn_server(), FedDyn()
    method.start(s)
    assert s.arrays["feddyn.mean_samples"].item() == 20
    assert method.result(s)["model.0.w"].tolist() == [1.0, 2.0]
    replies = [reply(0, 10, [2.0, 2.0], 2.0, 3), reply(1, 30, [4.0, 2.0], 6.0, 8)]
    method.reduce(s, s.task("fit", (0, 1)), replies)
    assert s.round == 1
    assert method.result(s)["model.0.w"].tolist() == [3.0, 2.0]  # not weighted
    assert s.arrays["model.0.w"].tolist() == [4.0, 2.0]  # 3 + (1 + 3) / 4


def test_feddyn_averages_buffers_like_fedavg():
    s, method = feddyn_server(), FedDyn()
    method.start(s)
    method.reduce(
        s,
        s.task("fit", (0, 1)),
        [reply(0, 10, [2.0, 2.0], 2.0, 3), reply(1, 30, [4.0, 2.0], 6.0, 8)],
    )
    for arrays in (s.arrays, method.result(s)):
        assert arrays["model.0.running_var"].tolist() == [5.0]
        assert arrays["model.0.num_batches_tracked"].item() == 6
        assert arrays["model.0.num_batches_tracked"].dtype == torch.int64
    assert sorted(method.result(s)) == sorted(n for n in s.arrays if n.startswith("model."))
    assert not any("running_var" in name for name in s.state if "sum_h" in name)
