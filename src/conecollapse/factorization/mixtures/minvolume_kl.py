r"""Minimum volume for counts: the Kullback-Leibler divergence in place of the squared error.

.. math:: \min_{W, H \ge 0,\ H 1 = 1}\ D(X \| W H) + \lambda \log\det(I + H H^T / \delta)

W takes the multiplicative step of `conecollapse.factorization.nmf.mu`. For H, with
:math:`Q = X / (W H)` and F the inverse of :math:`H_0 H_0^T + \delta I` at the last components
:math:`H_0`, split into its positive and negative entries, the objective is at most a sum over
entries of

.. math:: (w_k + \mu_k) h - c \log h + p h^2, \qquad c = h_0 (W^T Q + 2 \lambda F^- H_0), \quad p =
   \lambda\, (F^+ H_0) / h_0,

with :math:`w_k` the sums of the columns of W and a multiplier :math:`\mu_k` that makes the row sum
to one (Leplat, Gillis & Ang 2020). Its minimum is the positive root of a quadratic equation, and
the sum of a row falls as the multiplier grows, so that it is found by bisection. The objective
never rises.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Unpack

import numpy as np

from conecollapse._iterate import Stopping, iterate
from conecollapse._types import BoolArray, FloatArray, Points
from conecollapse.factorization.initial_factors import initialize
from conecollapse.factorization.mixtures.compressed import compressed
from conecollapse.factorization.mixtures.minvolume import volume_scale
from conecollapse.factorization.mixtures.starts import Mixture, furthest_from
from conecollapse.factorization.nmf.mu import mu
from conecollapse.factorization.result import Factorization, rounding_of, squared_error
from conecollapse.tables import Table, as_table

# of the divergence for each component: more merges the rare components of planted signatures
VOLUME = 0.003
TOL = 1e-4  # fitting longer than the noise supports loses components again
FILLED = 0.03  # of the mean: what the zeros of the start become
FIRST = 100  # plain steps, after which the divergence is about that of the noise
LEAST_DIVERGENCE = 1e-6  # of the sum, for data without noise
TINY = 1e-16  # of a row that sums to one: entries below stay there, so that they can grow again
HALVINGS = 45  # of the bracket of a multiplier


@dataclass(frozen=True)
class _State:
    W: FloatArray
    H: FloatArray
    QHt: FloatArray
    objective: float


def minvolume_kl(
    X: Table,
    W: FloatArray,
    H: FloatArray,
    lam: float,
    *,
    n_held: int = 0,
    **stopping: Unpack[Stopping],
) -> Factorization:
    """``X ~ W H`` from the start (W, H), whose components are scaled to sum one; the first
    ``n_held`` stay. X in float64."""
    sums = H.sum(axis=1)
    W, H = W * sums, np.maximum(H / sums[:, None], TINY)
    quotients = X.quotients()
    delta = volume_scale(H)
    eye = np.eye(len(H))

    def measured(W: FloatArray, H: FloatArray) -> _State:
        QHt, logs = quotients.right(W, H)
        model = float(W.sum(axis=0) @ H.sum(axis=1))
        volume = float(np.linalg.slogdet(eye + H @ H.T / delta)[1])
        return _State(W, H, QHt, max(logs - quotients.total + model, 0.0) + lam * volume)

    def step(s: _State) -> _State:
        W = s.W * s.QHt / s.H.sum(axis=1)
        F = np.linalg.inv(s.H @ s.H.T + delta * eye)
        c = s.H * (quotients.left(W, s.H) + 2 * lam * np.maximum(-F, 0.0) @ s.H)
        p = lam * (np.maximum(F, 0.0) @ s.H) / s.H
        free = np.maximum(_rows_of_sum_one(c[n_held:], p[n_held:]), TINY)
        return measured(W, np.vstack([s.H[:n_held], free]))

    trace = iterate(
        step,
        measured(W, H),
        rounding=rounding_of(X, quotients.total),
        stage="minimum volume",
        **stopping,
    )
    s = trace.state
    return Factorization.of(
        s.W, s.H, s.objective, trace, quotients.total, squared_error(X, s.W, s.H)
    )


def _rows_of_sum_one(c: FloatArray, p: FloatArray) -> FloatArray:
    """For each row the entries ``h`` with ``2 p h^2 + t h = c`` and the t for which they sum to
    one."""

    def entries(t: FloatArray) -> FloatArray:
        root = np.sqrt(t[:, None] ** 2 + 8 * p * c)
        positive = t[:, None] > 0
        large = np.where(positive, t[:, None] + root, 1.0)
        return np.where(
            positive,
            2 * c / large,
            (root - t[:, None]) / np.maximum(4 * p, np.finfo(np.float64).tiny),
        )

    high = c.sum(axis=1)  # h <= c / t, so that the sum is at most one there
    reach = np.maximum(high, 1.0)
    low = high - reach
    while (short := entries(low).sum(axis=1) < 1).any():
        reach = np.where(short, 4 * reach, reach)
        low = high - reach
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        above = entries(middle).sum(axis=1) > 1
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return entries(high)


def unmix_counts(
    points: Points,
    r: int,
    *,
    volume: float = VOLUME,
    held: FloatArray | None = None,
    left_out: BoolArray | None = None,
    **stopping: Unpack[Stopping],
) -> Mixture:
    """Components of float64 rows of counts that are not all zero, from NNDSVD; the first ones are
    ``held``.

    The zeros of NNDSVD become small. Filled with the mean, as is usual, they hide rare sparse
    components; left at zero, they stay there.

    What a unit of the logarithm of the volume is worth is ``volume`` times the divergence for each
    component, after `FIRST` plain steps.
    """
    kept = points if left_out is None or not left_out.any() else points[~left_out]
    X = as_table(kept)
    compressed(X, r)  # refuses a rank below r
    W, H = (
        np.maximum(F, FILLED * F.mean())
        for F in initialize(X, r, "nndsvd", np.random.default_rng(0))
    )
    plain = mu(X, W, H, loss="kullback-leibler", tol=0.0, max_iter=FIRST)
    divergence = max(plain.objective, LEAST_DIVERGENCE * plain.scale)
    n_held = 0 if held is None else len(held)
    if held is not None:
        others = furthest_from(held, H, r - n_held)
        even = np.asarray(kept.sum(axis=1), np.float64).reshape(-1, 1) / (r * held.sum(axis=1))
        W, H = np.hstack([even, W[:, others]]), np.vstack([held, H[others]])
    result = minvolume_kl(X, W, H, volume * divergence / r, n_held=n_held, **stopping)
    found = result.H * (np.asarray(kept.sum(axis=0)).ravel() > 0)
    if held is not None:
        found[:n_held] = held
    return Mixture(replace(result, H=found), "NNDSVD", volume, divergence / plain.scale)
