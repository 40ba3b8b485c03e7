r"""What is known of a mixture beside the data, put into components that were found without it.

The components and amounts are fitted in turn, each by least squares under what is known of it,
until the error no longer falls (multivariate curve resolution, Tauler 1995):

.. math:: W \leftarrow \arg\min_{W \in \mathcal W} \|X - W H\|^2, \qquad H \leftarrow \arg\min_{H
   \in \mathcal H} \|X - W H\|^2 .

- *Zeros* of W or H are left out of the least squares.
- *One peak*: after its least squares a column of W (or a row of H) is replaced by the nearest one
  that rises to its largest entry and falls after it. This step can raise the error.
- *Shares* of the first components in a sample fix the direction of its amounts there; how much of
  the sample they are is fitted, and the other amounts get what is left of the sum.
- *Closure*: amounts sum to one. The components get the lengths with which the fitted amounts do so
  best, and the amounts are least squares over the simplex.

Which component is which column of a mask: the assignment that breaks the zeros least.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.optimize import nnls as one_row
from sklearn.isotonic import isotonic_regression

from conecollapse._linalg import as_dense
from conecollapse._nnls import nnls
from conecollapse._types import AnyArray, BoolArray, FloatArray, IntArray
from conecollapse.factorization.nmf.anls import solve_rows
from conecollapse.tables import Table

MOST_ROUNDS, TOL = 500, 1e-8
SUM_WEIGHT = 1e3  # of the equation for the sum of the amounts beside fixed shares


@dataclass(frozen=True)
class Constraints:
    """What is known; masks are true where an entry is zero."""

    zero_amounts: BoolArray | None = None  # (n_samples, r)
    zero_entries: BoolArray | None = None  # (r, n_features)
    peaks_of_amounts: BoolArray | None = None  # (r,)
    peaks_of_components: bool = False
    shares: FloatArray | None = None  # (n_samples, k), of the first k components
    fixed: FloatArray | None = None  # (k, n_features), the first k components
    closure: bool = False

    @property
    def has_any(self) -> bool:
        """Whether components have to be fitted again; closure alone changes their lengths only."""
        known = (self.zero_amounts, self.zero_entries, self.peaks_of_amounts, self.shares)
        return self.peaks_of_components or any(part is not None for part in known)

    @property
    def keeps_order(self) -> bool:
        """Whether the order of the components is given."""
        known = (self.zero_amounts, self.zero_entries, self.peaks_of_amounts, self.shares)
        return any(part is not None for part in known)


def constrain(X: FloatArray, H: FloatArray, known: Constraints) -> tuple[FloatArray, FloatArray]:
    """Amounts and components of dense samples, from the components ``H`` found without."""
    H = H[_assign(X, H, known)] if known.keeps_order and known.fixed is None else H
    W = _amounts(X, H, known)
    before = float(np.square(X - W @ H).sum())
    for _ in range(MOST_ROUNDS):
        H = _components(X, W, H, known)
        W = _amounts(X, H, known)
        error = float(np.square(X - W @ H).sum())
        if abs(before - error) <= TOL * before:  # one peak can raise it
            break
        before = error
    return W, H


def _assign(X: FloatArray, H: FloatArray, known: Constraints) -> IntArray:
    """For each column of the masks the component that is nearest to what they say."""
    W = solve_rows(H @ H.T, X @ H.T)
    cost = np.zeros((len(H), len(H)))
    if known.zero_amounts is not None:
        squares = np.square(W) / np.maximum(np.square(W).sum(axis=0), np.finfo(float).tiny)
        cost += known.zero_amounts.T.astype(np.float64) @ squares
    if known.zero_entries is not None:
        squares = np.square(H) / np.square(H).sum(axis=1, keepdims=True)
        cost += known.zero_entries.astype(np.float64) @ squares.T
    if known.peaks_of_amounts is not None:
        broken = [float(np.square(w - one_peak(w)).sum() / max(w @ w, 1e-300)) for w in W.T]
        cost += np.outer(known.peaks_of_amounts, broken)
    if known.shares is not None:
        parts = W / np.maximum(W.sum(axis=1, keepdims=True), np.finfo(float).tiny)
        k = known.shares.shape[1]
        cost[:k] += np.square(known.shares[:, :, None] - parts[:, None, :]).sum(axis=0)
    return np.asarray(linear_sum_assignment(cost)[1])


def _amounts(X: FloatArray, H: FloatArray, known: Constraints) -> FloatArray:
    if known.shares is not None:
        return _beside_shares(X, H, known.shares)
    if known.zero_amounts is not None:
        W = nnls(H.T, X.T, allowed=~known.zero_amounts.T)[0].T
    else:
        W = solve_rows(H @ H.T, X @ H.T)
    if known.peaks_of_amounts is not None:
        for k in np.flatnonzero(known.peaks_of_amounts):
            W[:, k] = one_peak(W[:, k])
    return np.asarray(W)


def _beside_shares(X: FloatArray, H: FloatArray, shares: FloatArray) -> FloatArray:
    n, k = shares.shape
    W = np.zeros((n, len(H)))
    weight = SUM_WEIGHT * float(np.sqrt(np.square(H).sum(axis=1).mean()))
    for i in range(n):
        known = shares[i] @ H[:k]
        left = 1 - float(shares[i].sum())
        A = np.column_stack([known, H[k:].T])
        A = np.vstack([A, weight * np.append(-left, np.ones(len(H) - k))])
        scale, *others = one_row(A, np.append(X[i], 0.0))[0]
        W[i] = np.append(scale * shares[i], others)
    return W


def _components(X: FloatArray, W: FloatArray, H: FloatArray, known: Constraints) -> FloatArray:
    k = 0 if known.fixed is None else len(known.fixed)
    Y = X if known.fixed is None else X - W[:, :k] @ known.fixed
    V = W[:, k:]
    if known.zero_entries is not None:
        free = nnls(V, Y, allowed=~known.zero_entries[k:])[0]
    else:
        free = solve_rows(V.T @ V, Y.T @ V).T
    if known.peaks_of_components:
        free = np.array([one_peak(h) for h in free])
    empty = ~free.any(axis=1)  # a component without amounts stays
    free[empty] = H[k:][empty]
    return np.vstack([H[:k], free])


def one_peak(values: FloatArray) -> FloatArray:
    """The nearest values that rise up to the largest one and fall after it.

    >>> one_peak(np.array([0.0, 2.0, 1.0, 5.0, 3.0, 4.0])).tolist()
    [0.0, 1.5, 1.5, 5.0, 3.5, 3.5]
    """
    top = int(np.argmax(values))
    rising = isotonic_regression(values[: top + 1])
    falling = isotonic_regression(values[top:], increasing=False)
    return np.append(rising[:-1], np.append(values[top], falling[1:]))


def closed_lengths(W: FloatArray) -> FloatArray:
    """Factors of the amounts with which those of each sample sum to one, as well as they can."""
    factors = one_row(W, np.ones(len(W)))[0]
    return np.where(factors > 0, factors, 1 / np.maximum(W.max(axis=0), np.finfo(float).tiny))


@dataclass(frozen=True)
class ClosedLeastSquares:
    """``min |(x - w H) / s|^2`` over w >= 0 with sum one."""

    H: AnyArray
    noise: AnyArray

    def __call__(self, rows: Table) -> AnyArray:
        X = np.asarray(as_dense(rows.array), np.float64) / self.noise
        return np.asarray(nnls((self.H / self.noise).T, X.T, simplex=True)[0].T)

    def reordered(self, order: IntArray) -> Self:
        """The same with the components in this order."""
        return replace(self, H=self.H[order])
