r"""How sure factors are: tables like the one at hand, drawn anew around the fit, and intervals from
what is found in them.

The model is :math:`X = W H + E` with noise E of mean zero. With the fit :math:`F = \hat W \hat H`
in place of the truth, tables :math:`X^*` are drawn and factorized like X; the spread of their
factors around :math:`\hat W, \hat H` is that of the estimate around the truth. Noise is drawn in
one of two ways:

- *poisson*: :math:`X^*_{ij} \sim \mathrm{Poisson}(F_{ij})`, for counts;
- *residuals*: :math:`X^*_{ij} = \max(F_{ij} + e, 0)`, where e is the residual of a random entry
  whose fit is similar: the entries are sorted by F and cut into groups of 200. So noise may grow
  with the level in any way. Fitting makes residuals smaller than the noise, most where an entry
  decides on the fit by itself; each is divided by :math:`\sqrt{(1 - p_{ij}) (1 - q_{ij})}`, where p
  and q are the *leverages* of the entry in the least squares of its row of W and of its column of
  H, over the coefficients that are positive.

*Intervals.* Let :math:`[a, b]` be the quantiles of an entry over the draws, :math:`\theta` its
estimate, and d the median of the draws minus :math:`\theta`. The draws are off by d from what they
are drawn around, so the estimate may be off by as much from the truth; then
:math:`[a - 2 d, b - 2 d]` is the interval around the corrected estimate. Factors are bounded by
zero, where d is the bound's work rather than an error of the estimate, so that it must not be
trusted: the interval reported is the union of both. It begins at zero where :math:`a = 0`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import scipy.sparse as sp

from conecollapse._types import AnyArray, BoolArray, FloatArray, IntArray
from conecollapse.tables import CsrTable, DenseTable, Table

SIMILAR = 200  # entries whose residuals are exchanged
LEAST_LEFT = 0.1  # of an entry, after leverage: with less, its residual says nothing of the noise
BLOCK = 2**22  # entries drawn at once


class Noise(ABC):
    """Draws tables around a fit."""

    @abstractmethod
    def table(self, rng: np.random.Generator) -> Table:
        """One more table."""


class Poisson(Noise):
    """Counts with the mean ``W H``; sparse if ``is_sparse``."""

    def __init__(self, W: FloatArray, H: FloatArray, is_sparse: bool) -> None:
        self.W, self.H, self.is_sparse = W, H, is_sparse

    def table(self, rng: np.random.Generator) -> Table:
        step = max(1, BLOCK // self.H.shape[1])
        parts = [
            rng.poisson(self.W[a : a + step] @ self.H).astype(np.float64)
            for a in range(0, len(self.W), step)
        ]
        if self.is_sparse:
            return CsrTable(
                sp.csr_array(sp.vstack([sp.csr_array(part) for part in parts], format="csr"))
            )
        return DenseTable(np.concatenate(parts))


class Residuals(Noise):
    """The fit with residuals of entries that are fitted by similar values; samples and features of
    zeros stay as they are."""

    def __init__(self, X: AnyArray, W: FloatArray, H: FloatArray) -> None:
        self.fit = W @ H
        left = (1 - _leverages(H, W > 0)) * (1 - _leverages(W.T, H.T > 0).T)
        self.residuals = (
            (np.asarray(X, np.float64) - self.fit) / np.sqrt(np.maximum(left, LEAST_LEFT))
        ).ravel()
        filled = np.any(X, axis=1, keepdims=True) & np.any(X, axis=0)
        order: IntArray = np.argsort(self.fit, axis=None, kind="stable")
        order = order[filled.ravel()[order]]
        self.groups = np.array_split(order, max(1, len(order) // SIMILAR))

    def table(self, rng: np.random.Generator) -> Table:
        noise = np.zeros_like(self.residuals)
        for group in self.groups:
            noise[group] = self.residuals[group[rng.integers(0, len(group), len(group))]]
        return DenseTable(np.maximum(self.fit + noise.reshape(self.fit.shape), 0.0))


def _leverages(H: FloatArray, is_used: BoolArray) -> FloatArray:
    """For each row of ``is_used`` and each column of ``H`` the leverage of that column in a
    least-squares problem over these rows of H."""
    supports, which = np.unique(is_used, axis=0, return_inverse=True)
    found = np.empty((len(supports), H.shape[1]))
    for leverage, used in zip(found, supports, strict=True):
        Q = np.linalg.qr(H[used].T)[0]
        leverage[:] = np.square(Q).sum(axis=1)
    return found[which.ravel()]


def intervals(draws: AnyArray, estimate: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
    """The ends of the interval of each entry of ``estimate``, from ``draws`` (n_draws, ...)."""
    tail = (1 - level) / 2
    # right for few draws, too
    low, middle, high = np.quantile(draws, [tail, 0.5, 1 - tail], axis=0, method="weibull")
    twice = 2 * (middle - estimate)
    return np.where(low <= 0, 0.0, np.maximum(np.minimum(low, low - twice), 0.0)), np.maximum(
        high, high - twice
    )
