r"""Hierarchical alternating least squares (Cichocki & Phan 2009), accelerated.

One coordinate at a time has a closed form: with :math:`G = H H^T` and :math:`C = X H^T`,

.. math:: w_{ik} \leftarrow \max\Big(0,\ w_{ik} + \frac{c_{ik} - w_i G_{\cdot k}}{G_{kk}}\Big).

The sweeps are in `conecollapse.factorization.nmf.row_sweeps`. Two accelerations:

- *several sweeps* for each product with X, which is the expensive part (Gillis & Glineur 2012): as
  many as the product is worth, and fewer for a row that has stopped moving;
- *extrapolation* (Ang & Gillis 2019): each factor is moved on along its last step, by a share beta
  that grows while the objective falls. A step that raises the objective is taken back, beta
  shrinks, and the step is done again without extrapolation, so the objective never rises.

With one sweep and no extrapolation this is scikit-learn's coordinate descent.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Unpack

import numpy as np

from conecollapse._iterate import Stopping, iterate
from conecollapse._linalg import row_lengths
from conecollapse._threads import serial_blas
from conecollapse._types import AnyArray
from conecollapse.factorization.nmf.fixed import Fixed
from conecollapse.factorization.nmf.row_sweeps import sweep_ahead
from conecollapse.factorization.result import Factorization, rounding_of
from conecollapse.tables import Equations, Table

# few coordinates of a sparse factor move, so that four sweeps cost little more than one
LEAST_SWEEPS, MOST_SWEEPS = 4, 8
SWEEP_SHARE = 0.3  # sweeps may take this share of the time of the product they follow
BETA, BETA_MOST, GROW, GROW_MOST, SHRINK = 0.5, 1.0, 1.05, 1.01, 1.5  # Ang & Gillis 2019, section 3


@dataclass(frozen=True)
class _State:
    W: AnyArray
    Ht: AnyArray  # H transposed, so that the rows of both factors are contiguous
    Ht_ahead: AnyArray  # moved on along its last step: where the next step begins
    beta: float
    beta_most: float
    objective: float
    of_rows: Equations | None = None  # of the start, where they are known before the first step


def hals(
    X: Table,
    W: AnyArray,
    H: AnyArray,
    *,
    sweeps: int | None = None,
    extrapolate: bool = True,
    fixed: Fixed | None = None,
    n_samples: float | None = None,
    **stopping: Unpack[Stopping],
) -> Factorization:
    """``X ~ W H`` from the start (W, H) by accelerated HALS; ``sweeps=1, extrapolate=False`` is
    plain coordinate descent. ``n_samples`` is the sum of the weights of samples, where they have
    some."""
    norm2 = X.squared_norm
    rounding = rounding_of(X, norm2)
    n = X.shape[0] if n_samples is None else n_samples
    sweeps_W, sweeps_H = (sweeps, sweeps) if sweeps else _worthwhile_sweeps(X, W.shape[1], n)

    def attempt(s: _State, Ht: AnyArray, beta: float) -> _State:
        _, W = sweep_ahead(s.W, s.of_rows or X.row_equations(Ht.T), sweeps_W, s.W, beta)
        of_columns = X.column_equations(W)
        new, ahead = sweep_ahead(Ht, of_columns, sweeps_H, s.Ht, beta, fixed)
        return _State(W, new, ahead, beta, s.beta_most, of_columns.error(norm2, new))

    def step(s: _State) -> _State:
        if s.beta:
            new = attempt(s, s.Ht_ahead, s.beta)
            if new.objective <= s.objective:
                most = min(1.0, GROW_MOST * s.beta_most)
                return replace(new, beta=min(most, GROW * s.beta), beta_most=most)
        plain = attempt(s, s.Ht, 0.0)
        if plain.objective > s.objective + rounding:  # cannot be, beyond rounding
            return s
        return replace(plain, beta=s.beta / SHRINK, beta_most=s.beta)

    W, Ht = np.ascontiguousarray(W), np.ascontiguousarray(H.T)
    with serial_blas():  # products and sweeps run on our threads
        of_rows = X.row_equations(Ht.T)
        start = _State(
            W, Ht, Ht, BETA if extrapolate else 0.0, BETA_MOST, of_rows.error(norm2, W), of_rows
        )
        trace = iterate(step, start, rounding=rounding, stage="HALS", **stopping)
    W, Ht = trace.state.W, trace.state.Ht
    if fixed is None:
        W, Ht = _balanced(W, Ht)
    return Factorization.of(W, np.ascontiguousarray(Ht.T), trace.state.objective, trace, norm2)


def _balanced(W: AnyArray, Ht: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Components of which one factor has all but vanished, with equal factors, or none where it is
    zero; the product does not change.

    What a component that fits nothing any more is multiplied by is arbitrary, and drifts without
    bound from step to step.
    """
    lengths_W, lengths_H = row_lengths(W.T), row_lengths(Ht.T)
    eps = float(np.finfo(W.dtype).eps)
    alive = (lengths_W > 0) & (lengths_H > 0)
    if not alive.all():
        W, Ht = np.where(alive, W, 0), np.where(alive, Ht, 0)
    drifted = alive & (np.minimum(lengths_W, lengths_H) < eps * np.maximum(lengths_W, lengths_H))
    if not drifted.any():
        return W, Ht
    gap = np.where(
        drifted,
        np.log2(np.where(drifted, lengths_H, 1.0)) - np.log2(np.where(drifted, lengths_W, 1.0)),
        0.0,
    )
    power = np.rint(gap / 2).astype(np.int64)  # of two, so that nothing is rounded
    return np.ldexp(W, power), np.ldexp(Ht, -power)


def _worthwhile_sweeps(X: Table, r: int, n: float) -> tuple[int, int]:
    """Rounds whose cost is a fair share of the product with X that each half step pays for
    anyway; of n samples like those of X, so that weights do not change the steps."""
    m, n_entries = X.shape[1], X.n_entries * (n / X.shape[0])
    return tuple(
        int(
            np.clip(
                1 + SWEEP_SHARE * (n_entries + (m + n - k) * r) / (k * r),
                LEAST_SWEEPS,
                MOST_SWEEPS,
            )
        )
        for k in (n, m)
    )  # type: ignore[return-value]
