r"""Counts: components whose amounts have a scale of their own, such as mutational signatures.

Two stages of steps of second order from each start
(`conecollapse.factorization.mixtures.distance`): first with the mean amount of each component in
the criterion, which fits; then with the logarithm of each single amount above
:math:`\epsilon`, which falls from the mean of its component to its noise.

Candidates are judged by what is known of amounts after the fit: of each component a part of the
samples has none, and the others' amounts are lognormal or exponential, whichever is likelier:

.. math:: J(B) + \frac{2}{n} \sum_{i,k} -\log p_k(w_{ik}) .

An amount that is zero is known up to its noise, and counts with the density of that.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from conecollapse._types import BoolArray, FloatArray
from conecollapse.factorization.mixtures.distance import Distance, noise_of_amounts
from conecollapse.factorization.mixtures.levenberg import descend
from conecollapse.factorization.mixtures.samples import Samples
from conecollapse.factorization.mixtures.search import Candidate, say_nothing
from conecollapse.factorization.nmf.anls import solve_rows

FALLING = (1.0, 0.1, 0.01, 0.0)  # epsilon over the mean amount of each component
FIT_STEPS, LEVEL_STEPS = 60, 20
TOL = 0.02  # of J: less than a step of another start gains
LEAST_SPREAD = 0.05  # of the logarithms of the amounts of a component
LOG_NORMAL = 0.5 * (1 + np.log(2 * np.pi))  # entropy of a standard normal number


def search_counts(
    samples: Samples,
    starts: dict[str, FloatArray],
    *,
    free: BoolArray | None = None,
    told: Callable[[str], object] = say_nothing,
) -> list[Candidate]:
    """Candidates from all ``starts`` (rays), best first."""
    found = []
    for name, B in starts.items():
        told(name)
        try:
            refined = refine(samples, B, free)
            candidate = Candidate(name, judge_counts(samples, refined), refined)
            if np.isfinite(candidate.value):
                found.append(candidate)
        except np.linalg.LinAlgError:  # two rays became one
            continue
    return sorted(found, key=lambda c: c.value)


def refine(samples: Samples, B: FloatArray, free: BoolArray | None = None) -> FloatArray:
    """The rays that both stages lead to."""
    first = Distance(samples, exposures=True)
    B = descend(first, B, samples.sums, max_iter=FIT_STEPS, tol=TOL, free=free).B
    for level in FALLING:
        W = solve_rows(B @ B.T, samples.Z @ B.T)
        epsilon = np.maximum(level * W.mean(axis=0), noise_of_amounts(samples, B))
        objective = Distance(samples, exposures=True, epsilon=epsilon)
        B = descend(objective, B, samples.sums, max_iter=LEVEL_STEPS, tol=TOL, free=free).B
    return B


def judge_counts(samples: Samples, B: FloatArray) -> float:
    """J and the likelihood of the amounts."""
    state = Distance(samples).evaluate(B)
    floor, n = noise_of_amounts(samples, B), len(samples.Z)
    present = floor < state.W
    k = np.maximum(present.sum(axis=0), 1)
    logs = np.where(present, np.log(np.maximum(state.W, floor)), 0.0)
    mean = logs.sum(axis=0) / k
    variance = np.square(logs).sum(axis=0) / k - mean**2
    lognormal = mean + np.log(np.sqrt(np.maximum(variance, LEAST_SPREAD**2))) + LOG_NORMAL
    amounts = (state.W * present).sum(axis=0) / k
    exponential = np.log(np.maximum(amounts, floor)) + 1
    part = np.clip(k / n, 0.5 / n, 1 - 0.5 / n)
    cost = k * (np.minimum(lognormal, exponential) - np.log(part))
    cost += (n - k) * (np.log(floor) - np.log(1 - part))
    return float(state.value + 2 / n * cost.sum())
