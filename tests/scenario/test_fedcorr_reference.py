"""FedCorr's samplers, as behaviour: what its recorded output shows holds for ours too.

Its draws come from a global generator and from set order, so that no value can be reproduced.
"""

from __future__ import annotations

import numpy as np

from flr.scenario.noises.common import NoiseContext, corrupt
from flr.scenario.noises.symmetric import Symmetric
from flr.scenario.partitions.bernoulli_dirichlet import BernoulliDirichlet
from flr.scenario.partitions.iid import Iid

NAMES = tuple(str(c) for c in range(10))


def covers(sites, n):
    return sorted(np.concatenate([np.asarray(s) for s in sites]).tolist()) == list(range(n))


def test_partitions_behave_as_recorded(golden):
    recorded = golden("fedcorr_partition_noise")
    y = np.array(recorded["y"])
    theirs = list(recorded["iid"]["dict_users"].values())
    ours, _ = Iid(5, stratified=False).split(y, 10, np.random.default_rng(0))
    for sites in (theirs, ours):
        assert covers(sites, len(y))
        assert {len(site) for site in sites} == {20}
    spec = recorded["noniid"]
    theirs = list(spec["dict_users"].values())
    partition = BernoulliDirichlet(spec["num_users"], p=spec["p"], alpha=spec["alpha_dirichlet"])
    ours, _ = partition.split(y, spec["num_classes"], np.random.default_rng(0))
    for sites in (theirs, ours):
        assert covers(sites, len(y))
        assert len({len(site) for site in sites}) > 1
        assert any(len(set(y[np.asarray(site)])) < 10 for site in sites), "sites lack classes"


def test_bernoulli_noise_behaves_as_recorded(golden):
    recorded = golden("fedcorr_partition_noise")
    y, spec = np.array(recorded["y"]), recorded["noise"]
    sites = [np.asarray(s) for s in recorded["iid"]["dict_users"].values()]
    theirs = [np.array(spec["y_noisy"])[site] for site in sites]
    noise = Symmetric(clients=spec["rho"], floor=spec["tau"], ratio="bernoulli")
    noisy_counts = []
    for seed in range(200):
        given, nominal, _ = corrupt(noise, NoiseContext(sites, y, NAMES, seed))
        noisy_counts.append(int((nominal > 0).sum()))
        for rate, site, labels in zip(nominal, sites, given, strict=True):
            assert rate == 0 or rate >= spec["tau"]
            assert rate > 0 or (labels == y[site]).all()
    assert len(set(noisy_counts)) >= 4, "clients are chosen by independent coins"
    assert abs(np.mean(noisy_counts) / 5 - spec["rho"]) < 0.1
    for flag, level, site, labels in zip(
        spec["noisy_client_flags"], spec["real_noise_level"], sites, theirs, strict=True
    ):
        changed = (labels != y[site]).mean()
        assert abs(changed - level) < 1e-12, "the recorded level is the realised one"
        assert flag or changed == 0
