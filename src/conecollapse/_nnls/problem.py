"""A least-squares problem with columns scaled to unit length, what depends on A alone, and
measurements of solutions with A itself."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg.lapack as lapack
import scipy.sparse as sp

from conecollapse._linalg import power_of_two, row_norms
from conecollapse._nnls.bound import (
    EPS,
    OPTIMAL,
    RESIDUAL_STOP,
    UNPROVEN,
    Record,
    has_accurate_square,
    is_optimal,
    lower_bounds,
)
from conecollapse._types import FloatArray, IntArray, Points

SAFE_LENGTHS = 1e-100, 1e100  # lengths whose squares lose nothing
# reciprocal condition of a Gram matrix from which its inverse is accurate enough
WELL_ENOUGH = 1e-5
# columns up to which that inverse is worth its time, and beyond which pricing by BLAS pays
LARGE = 512
DENSE_LIMIT = 2**27  # entries up to which a sparse A may be made dense: 1 GiB
TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class Problem:
    """``A`` with columns scaled to unit length: column j is ``A[:, j] * inverse[j]`` (zero columns
    stay zero)."""

    # float64; columns whose squares would be lost are divided by ``units``, powers of two
    A: Points
    norms: FloatArray  # lengths of the columns of ``A``
    inverse: FloatArray
    units: FloatArray

    @classmethod
    def of(cls, A: Points) -> Problem:
        A = A.astype(np.float64, copy=False)
        units, norms = np.ones(A.shape[1]), column_norms(A)
        if not ((norms > SAFE_LENGTHS[0]) & (norms < SAFE_LENGTHS[1])).all():
            peaks = abs(A).max(axis=0)
            units = power_of_two(np.asarray(peaks.toarray() if sp.issparse(A) else peaks).ravel())
            A = (A @ sp.diags_array(1 / units)).tocsr() if sp.issparse(A) else A / units
            norms = column_norms(A)
        return cls(A, norms, 1 / np.where(norms > 0, norms, np.inf), units)

    def unit(self) -> Points:
        """The matrix with unit columns itself."""
        if sp.issparse(self.A):
            return (self.A @ sp.diags_array(self.inverse)).tocsr()
        return self.A * self.inverse

    @property
    def may_be_dense(self) -> bool:
        """Whether `dense` fits into memory."""
        return not sp.issparse(self.A) or self.A.shape[0] * self.A.shape[1] <= DENSE_LIMIT

    @cached_property
    def dense(self) -> FloatArray:
        """A as an array in rows."""
        return np.ascontiguousarray(self.A.toarray() if sp.issparse(self.A) else self.A)

    @cached_property
    def reach(self) -> float:
        """A bound on the sum of the coefficients of unit columns in any optimum, as a multiple of
        |b|: known where signs do not mix."""
        return float(np.sqrt(self.A.shape[0])) if self.A.min() >= 0 or self.A.max() <= 0 else np.inf

    @cached_property
    def gram(self) -> FloatArray:
        """The products of the unit columns."""
        G = self.A.T @ self.A
        return (
            np.asarray(G.toarray() if sp.issparse(G) else G) * self.inverse * self.inverse[:, None]
        )

    @cached_property
    def conditioning(self) -> tuple[float, float]:
        return conditioning(self.gram)

    @cached_property
    def gram_inverse(self) -> FloatArray:
        return np.asarray(np.linalg.inv(self.gram))

    def correlations(self, R: FloatArray) -> FloatArray:
        """Products of the rows of ``R`` with the unit columns."""
        return np.asarray(R @ self.A) * self.inverse

    def residuals(self, Bt: FloatArray, H: FloatArray) -> tuple[FloatArray, FloatArray]:
        """``b - A x`` for coefficients of unit columns in rows, and their prices."""
        X = H * self.inverse
        R = Bt - (np.asarray((self.A @ X.T).T) if sp.issparse(self.A) else X @ self.A.T)
        return R, self.correlations(R)

    def measure(
        self, Bt: FloatArray, H: FloatArray, sigma: FloatArray, *, hold_all: bool = False
    ) -> tuple[Record, FloatArray]:
        """A record of the coefficients ``H`` of unit columns for right-hand sides in rows, and the
        prices, both measured with A.

        ``sigma`` estimates the smallest singular value of the unit columns in use, or of all of
        them if ``hold_all``.
        """
        R, prices = self.residuals(Bt, H)
        noise = EPS * (4 + np.sqrt(self.A.shape[0])) * row_norms(R)
        record = self._record(H, prices, row_norms(R), row_norms(Bt), noise, sigma, hold_all)
        return record, prices

    def measure_by_products(self, C: FloatArray, H: FloatArray, size: FloatArray) -> Record:
        """`measure` from products alone, for a well-conditioned Gram matrix; the record is UNPROVEN
        where the residual is too small for that.

        ``|r|^2 = |b|^2 - h . (c + g)``: its error is a few roundings of the square of ``|b|`` and
        the sum of h. Prices have errors like those of c, and not of ``Z' r``: a smaller sigma makes
        up for the difference in the bound.
        """
        prices = C - H @ self.gram
        squares = size**2 - np.einsum("ij,ij->i", H, C + prices)
        error = 4 * EPS * (size + H.sum(axis=1)) ** 2
        noise = EPS * (4 + np.sqrt(H.shape[1])) * (size + H.sum(axis=1))
        sigma = np.full(len(H), self.conditioning[1] / (1 + np.sqrt(self.A.shape[0])))
        rnorm = np.sqrt(np.maximum(squares, 0.0))
        record = self._record(H, prices, rnorm, size, noise, sigma, True)
        is_rough = ~has_accurate_square.py_func(squares, error, size)
        record.ending[is_rough & (size > 0)] = UNPROVEN
        record.least[:] -= np.where(is_rough, record.least, error / np.maximum(rnorm, TINY))
        return record

    def _record(
        self,
        H: FloatArray,
        prices: FloatArray,
        rnorm: FloatArray,
        size: FloatArray,
        noise: FloatArray,
        sigma: FloatArray,
        hold_all: bool,
    ) -> Record:
        """The bound, for residual norms and prices that were measured in one way or another."""
        record = Record.empty(*H.shape)
        rounding = EPS * (4 + np.sqrt((H > 0).sum(axis=1))) * (size + H.sum(axis=1))
        v = np.where(H > 0, np.abs(prices), np.where(self.inverse > 0, prices, -np.inf))
        # all columns together say nothing of coefficients, however far they reach
        reach = np.full(len(H), np.inf) if hold_all else self.reach * np.maximum(size, TINY)
        least = lower_bounds(
            v, H > 0, hold_all, sigma, reach, rnorm, noise + rounding, np.ones(len(H))
        )
        record.least[:] = np.maximum(least - rounding, 0.0)
        record.X[:] = H * self.inverse
        record.ending[:] = np.where(
            is_optimal(rnorm + rounding, record.least, size), OPTIMAL, UNPROVEN
        )
        # less than what rounding leaves of b: not a residual
        record.rnorm[:] = np.where(rnorm <= RESIDUAL_STOP * size, 0.0, rnorm)
        return record

    def kkt(self, Bt: FloatArray, X: FloatArray) -> FloatArray:
        """The largest violation of the optimality conditions, in units of |a_j| |b|."""
        prices = self.residuals(Bt, X * self.norms)[1]
        violation = np.where(X > 0, np.abs(prices), prices).max(axis=1)
        return np.asarray(np.maximum(violation, 0.0) / np.maximum(row_norms(Bt), TINY))


def conditioning(G: FloatArray) -> tuple[float, float]:
    """Estimates of the reciprocal condition of ``G = A'A`` and of the smallest singular value of A;
    zeros where A has no full rank."""
    factor, info = lapack.dpotrf(G, lower=1)
    if info != 0:
        return 0.0, 0.0
    size = np.abs(G).sum(axis=0).max()
    rcond, _ = lapack.dpocon(factor, size, uplo="L")
    return float(rcond), float(np.sqrt(rcond * size))


def safe_units(Bt: FloatArray) -> FloatArray:
    """Divide, in place, each right-hand side whose squares would be lost by a power of two near its
    peak; the divisors, mostly 1."""
    units = np.ones(len(Bt))
    with np.errstate(over="ignore"):
        sizes = row_norms(Bt)
    risky: IntArray = np.flatnonzero(~((sizes > SAFE_LENGTHS[0]) & (sizes < SAFE_LENGTHS[1])))
    if len(risky):
        units[risky] = power_of_two(np.abs(Bt[risky]).max(axis=1))
        Bt[risky] /= units[risky, None]
    return units


def column_norms(A: Points) -> FloatArray:
    """The lengths of the columns."""
    squares = A.multiply(A).sum(axis=0) if sp.issparse(A) else np.einsum("ij,ij->j", A, A)
    return np.sqrt(np.asarray(squares).ravel())
