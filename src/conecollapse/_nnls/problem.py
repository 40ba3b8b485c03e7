"""A least-squares problem with columns scaled to unit length, and measurements of its solutions
with A itself."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from conecollapse._linalg import power_of_two, row_norms
from conecollapse._nnls.local import RESIDUAL_STOP
from conecollapse._nnls.proof import EPS, PRODUCT_ERROR, is_optimal, least_residuals
from conecollapse._types import BoolArray, FloatArray, IntArray, Points

# a squared residual above this share of |b|^2 loses at most four digits as a difference
LARGE_RESIDUAL = 1e-4
SAFE_LENGTHS = 1e-100, 1e100  # lengths whose squares lose nothing


class Measured(NamedTuple):
    """What is measured of each row of coefficients."""

    rnorm: FloatArray
    kkt: FloatArray  # largest violation of the optimality conditions, in units of |a_j| |b|
    least: FloatArray  # no solution has a smaller residual norm
    optimal: BoolArray
    gradient: FloatArray

    def put(self, rows: IntArray, other: Measured) -> None:
        """Replace ``rows`` by the rows of another."""
        for mine, theirs in zip(self, other, strict=True):
            mine[rows] = theirs


class Answers(NamedTuple):
    """What is known about the solutions of a block of right-hand sides."""

    rnorm: FloatArray
    kkt: FloatArray
    least: FloatArray
    n_iter: IntArray
    finished: BoolArray
    optimal: BoolArray


@dataclass(frozen=True)
class Problem:
    """``A`` with columns scaled to unit length: column j is ``A[:, j] * inverse[j]`` (zero columns
    stay zero)."""

    # float64; columns whose squares would be lost are divided by ``units``, powers of two
    A: Points
    norms: FloatArray  # lengths of the columns as given
    inverse: FloatArray
    units: FloatArray

    @classmethod
    def of(cls, A: Points) -> Problem:
        A = A.astype(np.float64, copy=False)
        norms = column_norms(A)
        if ((norms > SAFE_LENGTHS[0]) & (norms < SAFE_LENGTHS[1])).all():
            return cls(A, norms, 1 / norms, np.ones(len(norms)))
        units = power_of_two(
            np.asarray(
                abs(A).max(axis=0).toarray() if sp.issparse(A) else np.abs(A).max(axis=0)
            ).ravel()
        )
        A = (A @ sp.diags_array(1 / units)).tocsr() if sp.issparse(A) else A / units
        norms = column_norms(A)
        with np.errstate(over="ignore"):
            return cls(A, norms * units, 1 / np.where(norms > 0, norms, np.inf), units)

    def unit(self) -> Points:
        """The matrix with unit columns itself."""
        return (
            (self.A @ sp.diags_array(self.inverse)).tocsr()
            if sp.issparse(self.A)
            else self.A * self.inverse
        )

    @property
    def lengths(self) -> FloatArray:
        """Lengths of the columns of ``A``."""
        return self.norms / self.units

    @cached_property
    def reach(self) -> float:
        """A bound on the sum of the coefficients of unit columns in any optimum, as a multiple of
        |b|: known where signs do not mix."""
        return float(np.sqrt(self.A.shape[0])) if self.A.min() >= 0 or self.A.max() <= 0 else np.inf

    def correlations(self, R: FloatArray) -> FloatArray:
        """Products of the rows of ``R`` with the unit columns."""
        return np.asarray(R @ self.A) * self.inverse

    def measure(
        self, Bt: FloatArray, H: FloatArray, sigma: FloatArray, *, hold_all: bool = False
    ) -> Measured:
        """Measure each row of coefficients ``H`` for the right-hand sides in rows.

        ``sigma`` estimates the smallest singular value of the unit columns in use, or of all of
        them if ``hold_all``.
        """
        X = H * self.inverse
        R = Bt - (np.asarray((self.A @ X.T).T) if sp.issparse(self.A) else X @ self.A.T)
        gradient = self.correlations(R)
        violation = np.where(H > 0, np.abs(gradient), gradient).max(axis=1)
        rnorm, size = row_norms(R), row_norms(Bt)
        optimal = np.zeros(len(H), bool)
        # a column of zeros adds nothing to the cone
        prices = np.where(self.inverse > 0, gradient, -np.inf)
        for reach in (np.inf, self.reach) if not hold_all else (np.inf,):
            least, rounding = least_residuals(
                prices, H, hold_all, sigma, reach, self.A.shape[0], size, rnorm
            )
            optimal = is_optimal(rnorm + rounding, least, size)
            if optimal.all():
                break
        # less than what rounding leaves of b: not a residual
        rnorm[rnorm <= RESIDUAL_STOP * size] = 0.0
        return Measured(
            rnorm,
            np.maximum(violation, 0.0) / np.maximum(size, np.finfo(np.float64).tiny),
            least,
            optimal,
            gradient,
        )

    def measure_by_gram(
        self, G: FloatArray, C: FloatArray, H: FloatArray, size: FloatArray, sigma: float
    ) -> tuple[Measured, BoolArray]:
        """`measure` from products alone, for a well-conditioned ``G``, and the rows whose residual
        is too small for that.

        ``|r|^2 = |b|^2 - h . (c + g)``: its error is a few roundings of the square of ``|b|`` and
        the sum of h. Gradients have errors like those of c, and not of ``Z' r``: a smaller
        ``sigma`` makes up for the difference in the bound.
        """
        gradient = C - H @ G
        squares = size**2 - np.einsum("ij,ij->i", H, C + gradient)
        rnorm = np.sqrt(np.maximum(squares, 0.0))
        violation = np.where(H > 0, np.abs(gradient), gradient).max(axis=1)
        kkt = np.maximum(violation, 0.0) / np.maximum(size, np.finfo(np.float64).tiny)
        sigmas = np.full(len(H), sigma / (1 + np.sqrt(self.A.shape[0])))
        least, rounding = least_residuals(
            gradient, H, True, sigmas, np.inf, self.A.shape[0], size, rnorm
        )
        error = 4 * EPS * (size + H.sum(axis=1)) ** 2
        with np.errstate(divide="ignore", invalid="ignore"):
            least = np.maximum(least - np.where(squares > 0, error / rnorm, np.inf), 0.0)
        is_rough = ~((squares > LARGE_RESIDUAL * size**2) & (error <= PRODUCT_ERROR * squares))
        return Measured(
            rnorm, kkt, least, is_optimal(rnorm + rounding, least, size), gradient
        ), is_rough


def safe_units(Bt: FloatArray) -> FloatArray:
    """Divide, in place, each right-hand side whose squares would be lost by a power of two near its
    peak; the divisors, mostly 1."""
    units = np.ones(len(Bt))
    with np.errstate(over="ignore"):
        sizes = row_norms(Bt)
    risky = np.flatnonzero(~((sizes > SAFE_LENGTHS[0]) & (sizes < SAFE_LENGTHS[1])))
    if len(risky):
        units[risky] = power_of_two(np.abs(Bt[risky]).max(axis=1))
        Bt[risky] /= units[risky, None]
    return units


def column_norms(A: Points) -> FloatArray:
    """The lengths of the columns."""
    return np.sqrt(
        np.asarray(A.multiply(A).sum(axis=0)).ravel()
        if sp.issparse(A)
        else np.einsum("ij,ij->j", A, A)
    )
