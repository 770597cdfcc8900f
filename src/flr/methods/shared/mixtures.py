"""Two-component splits of numbers, usually losses: which samples or clients are probably clean.

The mixtures are scikit-learn's, imported when first used because that takes two seconds.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor


def min_max(values: Tensor) -> Tensor:
    """(v - min) / (max - min), within [0, 1]; all 1 where the values are equal."""
    low, high = values.min(), values.max()
    return (values - low) / (high - low) if high > low else torch.ones_like(values)


def clean_probability(
    losses: Tensor, seed: int, *, max_iter: int = 10, tol: float = 1e-2, reg_covar: float = 5e-4
) -> Tensor:
    """The posterior of the smaller-mean component, of losses scaled to [0, 1]; n values.

    Losses that cannot be split (fewer than two, all equal, or not finite) are all clean: 1.

    Args:
        losses: One for each sample (n).
        seed: Where the mixture starts.
        max_iter: As scikit-learn's `GaussianMixture` has it.
        tol: As scikit-learn's.
        reg_covar: As scikit-learn's.

    Example:
        >>> import torch
        >>> from flr.plugin import clean_probability
        >>> (clean_probability(torch.tensor([0.1, 0.2, 0.1, 2.0]), seed=1) > 0.5).tolist()
        [True, True, True, False]
    """
    posterior = larger_mean(losses, seed, max_iter, tol, reg_covar, scale=True)
    return torch.ones_like(losses) if posterior is None else 1 - posterior.to(losses)


def two_groups(
    values: Tensor, seed: int, *, max_iter: int = 100, tol: float = 1e-3, reg_covar: float = 1e-6
) -> Tensor:
    """Which values belong to the larger-mean component (n, bool); none where there is one group.

    Args:
        values: The numbers to split (n).
        seed: Where the mixture starts.
        max_iter: As scikit-learn's `GaussianMixture` has it.
        tol: As scikit-learn's.
        reg_covar: As scikit-learn's.

    Example:
        >>> import torch
        >>> from flr.plugin import two_groups
        >>> two_groups(torch.tensor([1.0, 1.1, 0.9, 7.0]), seed=1).tolist()
        [False, False, False, True]
    """
    posterior = larger_mean(values, seed, max_iter, tol, reg_covar, scale=False)
    if posterior is None:
        return torch.zeros(len(values), dtype=torch.bool, device=values.device)
    return (posterior > 0.5).to(values.device)


def larger_mean(
    values: Tensor, seed: int, max_iter: int, tol: float, reg_covar: float, *, scale: bool
) -> Tensor | None:
    """The posterior of the larger-mean component; None where there is nothing to split."""
    plain = values.detach().cpu().to(torch.float64)
    if len(plain) < 2 or not plain.isfinite().all() or plain.min() == plain.max():
        return None
    column = (min_max(plain) if scale else plain)[:, None].numpy()
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import GaussianMixture

    mixture = GaussianMixture(
        n_components=2, max_iter=max_iter, tol=tol, reg_covar=reg_covar, random_state=seed
    )
    with _one_thread(), warnings.catch_warnings():
        # a few steps without convergence are what the methods ask for
        warnings.simplefilter("ignore", ConvergenceWarning)
        posterior = mixture.fit(column).predict_proba(column)
    return torch.from_numpy(posterior[:, mixture.means_[:, 0].argmax()].copy())


def several_splits(rows: Tensor, seeds: Iterable[int]) -> list[Tensor]:
    """For each seed, which rows (n x d) are of the component with the larger sum of means."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import GaussianMixture

    plain, found = rows.detach().cpu().to(torch.float64).numpy(), []
    with _one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for seed in seeds:
            mixture = GaussianMixture(n_components=2, random_state=seed).fit(plain)
            larger = mixture.means_.sum(1).argmax()
            found.append(torch.from_numpy(mixture.predict(plain) == larger))
    return found


def smaller_first_mean(rows: Tensor, seed: int) -> Tensor:
    """The posterior (n) of the component of smaller mean in the first of standardised columns.

    1 for all rows where there is nothing to split: fewer than three of them, or all alike.
    """
    plain = rows.detach().cpu().to(torch.float64)
    if len(plain) < 3 or torch.allclose(plain, plain[0]):
        return torch.ones(len(plain), dtype=torch.float64)
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import GaussianMixture

    scaled = ((plain - plain.mean(0)) / (plain.std(0, correction=0) + 1e-12)).numpy()
    mixture = GaussianMixture(n_components=2, n_init=30, max_iter=2000, random_state=seed)
    with _one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        posterior = mixture.fit(scaled).predict_proba(scaled)
    return torch.from_numpy(posterior[:, mixture.means_[:, 0].argmin()].copy())


def _one_thread() -> AbstractContextManager[Any]:
    """Several threads would add up in the order they end, which gives other last bits."""
    limit: AbstractContextManager[Any] = _controller().limit(limits=1)
    return limit


@functools.cache
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

    return ThreadpoolController()
