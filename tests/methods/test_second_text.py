"""Whole runs against a second text of the equations, which shares no code with `flr.methods`.

The recorded outputs of the authors show parts; here is what holds them together: which round has
which ramp, what is kept from round to round, who is told what, and how the server joins. Batches
are whole sites, so that their order is no matter; the second text computes in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.mixture import GaussianMixture
from torch import Tensor

import flr
from flr.core import arrays
from tests.methods.second_federation import CLASSES, CONFIG, ROUNDS, T1, Second, Weights, blobs


def ramp(r: int, begin: int, end: int, largest: float) -> float:
    return largest * math.exp(-5 * (1 - (min(max(r, begin), end) - begin) / (end - begin)) ** 2)


def kl(s: Tensor, a: Tensor) -> Tensor:
    return (s * (s.log() - a)).sum(1)


def fednoro(f: Second) -> None:
    for r in range(ROUNDS):
        if r == T1:
            noisy = f.noisy_by_losses()
            assert any(noisy)
            assert not all(noisy)
        models = []
        for k in range(6):
            if r < T1 or not noisy[k]:
                models.append(f.trained(f.w, k, lambda z, k=k: f.adjusted_ce(k, z)))
                continue
            # in training the network sees whole sites, and so does the received one
            s, w = (f.said(f.w, k) / 0.8).softmax(1), ramp(r, T1, 6, 0.8)
            models.append(
                f.trained(
                    f.w,
                    k,
                    lambda z, k=k, s=s, w=w: (
                        w * kl(s, f.adjusted(k, z)).mean() + (1 - w) * f.adjusted_ce(k, z)
                    ),
                )
            )
        f.w = f.mean(models, f.n) if r < T1 else f.by_distance(models, noisy)


def with_labels(f: Second, masked: bool) -> None:
    """FedELC, and MaskedOptim with its three changes."""
    beta, labels = (0.1 if masked else 0.2), {}
    for r in range(ROUNDS):
        if r == T1:
            noisy = f.noisy_by_losses()
        models = []
        for k, (_, y) in enumerate(f.sites):
            if r < T1 or not noisy[k]:
                models.append(f.trained(f.w, k, lambda z, k=k: f.adjusted_ce(k, z)))
                continue
            given = F.one_hot(y, CLASSES).double()
            v = [labels.get(k, 10 * given)]

            def loss(z: Tensor, y: Tensor = y, given: Tensor = given, v: list = v) -> Tensor:
                p, q, b = z.softmax(1), v[0].softmax(1), len(y)
                counted = torch.ones(b).double()
                if masked:
                    hard = F.cross_entropy(z.detach(), y, reduction="none").argsort()
                    counted[hard[int(0.8 * b) :]] = 0
                own = -(q.log()[torch.arange(b), y] * counted).sum() / b
                near = (p * (p.log() - q.log())).sum(1).mean()
                spread = -(p * p.log()).sum(1).mean()
                step = (q - p.detach()) / CLASSES + 0.5 * counted[:, None] * (q - given)
                v[0] = v[0] - 15.625 * step  # an epoch is one batch
                return near / CLASSES + 0.5 * own + beta * spread / CLASSES

            local = f.trained(f.w, k, loss)
            labels[k] = 10 * (v[0].softmax(1) + f.said(local, k).softmax(1)) / 2
            if masked:
                local = {
                    name: (0.2 * f.w[name] + 0.8 * value).to(value.dtype)
                    for name, value in local.items()
                }
            models.append(local)
        if masked:
            f.w = f.medians(models)
        else:
            f.w = f.mean(models, f.n) if r < T1 else f.by_distance(models, noisy)


def spectrum(h: Tensor) -> tuple[Tensor, Tensor, float, float]:
    """First direction, residual, gap and ratio of one class."""
    _, S, right = torch.linalg.svd(h, full_matrices=False)  # noqa: N806
    k = next(k for k in range(1, len(S) + 1) if S[:k].sum() >= 10 / 11 * S.sum())
    return right[0], right[k:][:12], float((S[0] - S[1]) / S[0]), float(S[0] / S.sum())


def fedsir(f: Second) -> None:
    def features(w: Weights, k: int) -> Tensor:
        return f.of(w).body(f.sites[k][0]).detach()

    first, u = [], []
    for k, (_, y) in enumerate(f.sites):
        first.append(f.trained(f.w, k, lambda z, y=y: F.cross_entropy(z, y), epochs=5))
        h = features(first[k], k)
        large = [c for c in range(CLASSES) if (y == c).sum() >= 20]
        used = large if len(large) > 1 else y.unique().tolist()
        v = torch.stack([spectrum(h[y == c])[0] for c in used])
        pairs = [abs(float(v[i] @ v[j])) for i in range(len(v)) for j in range(i)]
        u.append([np.mean(pairs), np.mean(np.square(pairs))])
    scaled = (np.array(u) - np.mean(u, 0)) / np.std(u, 0)
    mixture = GaussianMixture(2, n_init=30, max_iter=2000, random_state=42).fit(scaled)
    p = mixture.predict_proba(scaled)[:, mixture.means_[:, 0].argmin()]
    clean = [k for k in range(6) if p[k] >= 0.5]
    assert 0 < len(clean) < 6

    def of_clean(models: list[Weights]) -> Weights:
        return f.mean([models[k] for k in clean], f.n[clean])

    f.w = kept = of_clean(first)
    labels = {k: y for k, (_, y) in enumerate(f.sites)}
    apart = {k: torch.ones(len(y)).double() for k, (_, y) in enumerate(f.sites)}
    for r in range(ROUNDS):
        if r in (2, 4, 6):
            relabel(f, kept, clean, features, labels, apart)
        models = []
        for k in range(6):
            if k in clean:
                models.append(f.trained(f.w, k, lambda z, k=k: f.adjusted_ce(k, z)))
                continue
            s, w = (f.said(f.w, k) / 0.8).softmax(1), ramp(r, 2, 4, 0.2) * apart[k]

            def loss(z: Tensor, k: int = k, s: Tensor = s, w: Tensor = w) -> Tensor:
                a = f.adjusted(k, z, least=1)
                hard = -a[torch.arange(len(z)), labels[k]]
                return (w * kl(s, a) + (1 - w) * hard).mean()

            models.append(f.trained(f.w, k, loss))
        kept = of_clean(models)
        f.w = f.by_distance(models, [k not in clean for k in range(6)])
        f.w |= {name: v for name, v in models[0].items() if not v.is_floating_point()}


def relabel(f, kept, clean, features, labels, apart) -> None:
    """One round of FedSIR's second part; changes `labels` and `apart`."""
    directions, residuals = [], []
    for c in range(CLASSES):
        told = {k: spectrum(features(kept, k)[f.sites[k][1] == c]) for k in clean}
        weigh = {k: float(f.counts[k, c]) * told[k][2] * told[k][3] for k in clean}
        weigh = {k: w for k, w in weigh.items() if f.counts[k, c] >= 12}
        v, V = told[max(clean, key=lambda k: int(f.counts[k, c]))][:2]  # noqa: N806
        if weigh:
            total = sum(weigh.values())
            M = sum(w / total * torch.outer(told[k][0], told[k][0]) for k, w in weigh.items())  # noqa: N806
            values, vectors = torch.linalg.eigh(M)
            if values[-1] - values[-2] >= 0.03:
                v = vectors[:, -1]
                N = sum(w / total * told[k][1].T @ told[k][1] for k, w in weigh.items())  # noqa: N806
                spread, axes = torch.linalg.eigh(N)
                V = axes[:, spread > 1e-9].T.flip(0)[:12]  # noqa: N806
        directions.append(v)
        residuals.append(V)
    for k in set(range(6)) - set(clean):
        h, y = features(kept, k), f.sites[k][1]
        A = torch.stack([(h @ v).abs() / h.norm(dim=1) for v in directions], 1)  # noqa: N806
        B = torch.stack([(h @ V.T).norm(dim=1) / len(V) ** 0.5 for V in residuals], 1)  # noqa: N806
        agree = A.argmax(1) == B.argmin(1)
        labels[k], apart[k] = torch.where(agree, A.argmax(1), y), (~agree).double()


TEXTS: dict[str, tuple[dict[str, Any], Callable[[Second], None]]] = {
    "fednoro": ({"warmup_rounds": T1, "ramp_end": 6}, fednoro),
    "fedelc": ({"warmup_rounds": T1}, lambda f: with_labels(f, masked=False)),
    "maskedoptim": ({"warmup_rounds": T1}, lambda f: with_labels(f, masked=True)),
    "fedsir": ({"relabel_every": 2, "share_samples": 12}, fedsir),
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_whole_run_is_what_the_equations_say(name, tmp_path):
    options, text = TEXTS[name]
    settings = {**CONFIG, "method": {"name": name, **options}}
    run = flr.run(settings, data=blobs(), out=tmp_path / "run")
    second = Second(run)
    text(second)
    made, _ = arrays.load(run.folder / "model.safetensors")
    floats = {name: value for name, value in second.w.items() if value.is_floating_point()}
    for entry, expected in floats.items():  # of counters, 16 may be cut off from 15.999999
        torch.testing.assert_close(
            made[f"model.0.{entry}"].double(), expected, atol=2e-6, rtol=0, msg=message(entry)
        )


def message(entry: str) -> Callable[[str], str]:
    return lambda said: f"{entry}: {said}"
