"""How sure a mean is: bootstrap intervals and paired tests over records.

Questions about one record share its adapter and its text, so records, not questions, are resampled
(cluster bootstrap), and two methods are compared record by record (paired sign-flip permutation test).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

Clusters = Mapping[str, Sequence[float]]
"""Record id → the scores of its questions."""

RESAMPLES = 2_000
MOST_ENUMERATED = 12
"""Records of which all 2^n signs are tried."""
SEED = 0


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over questions with a 95 % interval."""

    mean: float
    low: float
    high: float
    count: int
    """Questions."""
    clusters: int
    """Records."""


def estimate(scores: Clusters, *, seed: int = SEED) -> Estimate | None:
    """Mean over all questions, percentile bootstrap over records; None without any question."""
    groups = [np.asarray(own, dtype=float) for own in scores.values() if len(own)]
    if not groups:
        return None
    means = _resampled(groups, np.random.default_rng(seed))
    low, high = np.percentile(means, [2.5, 97.5])
    everything = np.concatenate(groups)
    return Estimate(float(everything.mean()), float(low), float(high), len(everything), len(groups))


def macro_estimate(datasets: Sequence[Clusters], *, seed: int = SEED) -> Estimate | None:
    """Unweighted mean over datasets (METHOD: overall = macro average), each resampled on its own."""
    parts = [estimate(scores, seed=seed) for scores in datasets]
    known = [part for part in parts if part is not None]
    if not known or len(known) < len(parts):
        return None  # an average over fewer datasets than the others' would not be comparable
    draw = np.random.default_rng(seed)
    means = np.mean([_resampled([np.asarray(o, dtype=float) for o in s.values() if len(o)], draw) for s in datasets], 0)
    low, high = np.percentile(means, [2.5, 97.5])
    counts = sum(part.count for part in known), sum(part.clusters for part in known)
    return Estimate(float(np.mean([part.mean for part in known])), float(low), float(high), *counts)


@dataclass(frozen=True, slots=True)
class Comparison:
    """One method against another on the same questions."""

    difference: float
    """Mean of first − second over records."""
    p_value: float
    """Two-sided. Exact up to `MOST_ENUMERATED` records; above, drawn, and at least 1 / (resamples + 1)."""
    clusters: int


def compare(first: Clusters, second: Clusters, *, seed: int = SEED) -> Comparison | None:
    """Paired sign-flip permutation test on the record means; None without a common record.

    Raises:
        ValueError: a common record has another number of questions on one side.
    """
    common = [key for key in first if key in second and len(first[key])]
    if not common:
        return None
    if any(len(first[key]) != len(second[key]) for key in common):
        raise ValueError("two methods were asked different numbers of questions about a record")
    gaps = np.array([np.mean(first[key]) - np.mean(second[key]) for key in common])
    if len(gaps) <= MOST_ENUMERATED:
        signs = np.array(list(product([-1.0, 1.0], repeat=len(gaps))))
    else:
        signs = np.random.default_rng(seed).choice([-1.0, 1.0], size=(RESAMPLES, len(gaps)))
    # a hair of slack: sums that are equal on paper round differently
    extreme = int((np.abs((signs * gaps).mean(axis=1)) >= abs(gaps.mean()) - 1e-12).sum())
    exact = len(gaps) <= MOST_ENUMERATED  # the signs as they are, are among them
    p_value = extreme / len(signs) if exact else (extreme + 1) / (RESAMPLES + 1)
    return Comparison(float(gaps.mean()), p_value, len(gaps))


def _resampled(groups: Sequence[NDArray[np.float64]], draw: np.random.Generator) -> NDArray[np.float64]:
    """Means over questions of `RESAMPLES` samples of records, drawn with replacement."""
    sums = np.array([own.sum() for own in groups])
    sizes = np.array([len(own) for own in groups])
    chosen = draw.integers(0, len(groups), size=(RESAMPLES, len(groups)))
    means: NDArray[np.float64] = sums[chosen].sum(axis=1) / sizes[chosen].sum(axis=1)
    return means
