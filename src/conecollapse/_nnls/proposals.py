"""Small problems without a compiled kernel: SciPy proposes solutions, and their optimality is
checked here.

Compiling the kernels of the active set takes seconds, and SciPy solves a small problem in some
microseconds. An answer of SciPy is taken where it meets the conditions that the kernels end with:
no column has a positive price by a residual that is accurate relative to its own length. What does
not meet them is left to the kernels. Whether a problem is small depends on its size alone, so that
its answer is the same on a machine that has compiled the kernels and on one that has not.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import nnls

from conecollapse._linalg import row_norms
from conecollapse._nnls.kernels import CLEANED_BELOW, DEPENDENT
from conecollapse._nnls.local import PRICE_STOP, RESIDUAL_STOP
from conecollapse._types import BoolArray, FloatArray, IntArray

SMALL_WORK = 2**18  # entries of the columns times right-hand sides: some tens of milliseconds


def is_small(Z: FloatArray, n_rhs: int) -> bool:
    """Whether ``n_rhs`` right-hand sides over the rows of ``Z`` are solved without a kernel."""
    return Z.size * n_rhs <= SMALL_WORK


def propose(
    Z: FloatArray, X: FloatArray, allowed: BoolArray | None, exclude: IntArray | None
) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Coefficients of each row of ``X`` over the rows of ``Z``, of unit length or zero, the
    residuals, and which are shown to be solutions.

    Rows of ``Z`` that are not ``allowed`` are left out, and for row i of ``X`` also ``exclude[i]``.
    """
    H = _by_scipy(Z if allowed is None else Z * allowed[:, None], X, exclude)
    R = X - H @ Z
    share = row_norms(R) / np.maximum(row_norms(X), np.finfo(np.float64).tiny)
    for i in np.flatnonzero((share > RESIDUAL_STOP) & (share < CLEANED_BELOW)):
        H[i], R[i] = _cleaned(Z, X[i], H[i])
    prices = R @ Z.T
    prices[H > 0] = 0.0
    if allowed is not None:
        prices[:, ~allowed] = 0.0
    if exclude is not None:
        prices[np.arange(len(X)), exclude] = 0.0
    lengths = row_norms(R)
    is_zero = lengths <= RESIDUAL_STOP * row_norms(X)
    return (
        H,
        R,
        np.isfinite(lengths)
        & (H >= 0).all(axis=1)
        & (is_zero | (prices.max(axis=1, initial=0.0) <= PRICE_STOP * lengths)),
    )


def _by_scipy(Z: FloatArray, X: FloatArray, exclude: IntArray | None) -> FloatArray:
    """SciPy's solutions in rows; NaN where it gave up. A column of zeros is never used."""
    A = np.array(Z.T, order="C")
    H = np.full((len(X), len(Z)), np.nan)
    for i, x in enumerate(X):
        if exclude is not None:
            A[:, exclude[i]] = 0.0
        try:
            H[i] = nnls(A, x)[0]
        except RuntimeError:  # its limit on iterations
            continue
        finally:
            if exclude is not None:
                A[:, exclude[i]] = Z[exclude[i]]
    return H


def _cleaned(Z: FloatArray, x: FloatArray, h: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The coefficients solved once more over the columns in use, and a residual that is orthogonal
    to these; NaN if they are dependent."""
    S = np.flatnonzero(h > 0)
    Q, T = np.linalg.qr(Z[S].T)
    if len(S) > len(x) or (np.abs(np.diag(T)) <= DEPENDENT).any():
        return h, np.full(len(x), np.nan)
    again = np.zeros_like(h)
    again[S] = np.linalg.solve(T, Q.T @ x)
    r = x - again[S] @ Z[S]
    return again, r - Q @ (Q.T @ r)
