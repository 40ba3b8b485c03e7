"""Encoders: the best rows of W for samples, known or new, over the components of a model.

An encoder is a record of a model's components, and is called with rows of a table in the working
unit of the fit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from conecollapse._types import AnyArray
from conecollapse.factorization.nmf.kl import encode_divergence
from conecollapse.factorization.nmf.robust import robust_codes
from conecollapse.factorization.nmf.row_solver import solve
from conecollapse.factorization.result import Factorization
from conecollapse.tables import Equations, Table


class Encoder(Protocol):
    """What a model needs to encode samples."""

    def __call__(self, rows: Table) -> AnyArray:
        """The codes of these rows."""


@dataclass(frozen=True)
class LeastSquares:
    """``min |x - w H|^2 + w R w'`` over w >= 0, R being the ``ridge``. With a ``limit``, Huber's
    loss takes the place of the square where entries have uncertainties."""

    H: AnyArray
    ridge: AnyArray | None = None
    limit: float | None = None  # in standard deviations, over the unit of the table

    def __call__(self, rows: Table) -> AnyArray:
        if self.limit is None or not rows.has_uncertainties:
            return self._weighted(rows)
        return robust_codes(self._weighted, rows, self.H, self.limit, self._penalty)

    def codes(self, equations: Equations, start: AnyArray | None = None) -> AnyArray:
        """The codes from the normal equations of rows; sets of positive entries of ``start`` are
        tried first."""
        return solve(equations if self.ridge is None else equations.plus(self.ridge), start)

    def _weighted(self, rows: Table) -> AnyArray:
        return self.codes(rows.row_equations(self.H))

    def _penalty(self, W: AnyArray, H: AnyArray) -> float:  # noqa: ARG002
        return 0.0 if self.ridge is None else float(np.einsum("ij,ij->", W @ self.ridge, W))


@dataclass(frozen=True)
class ScaledLeastSquares:
    """``min |(x - w H) / s|^2`` over w >= 0, where ``s`` holds the size of each feature's noise."""

    H: AnyArray
    noise: AnyArray

    def __call__(self, rows: Table) -> AnyArray:
        H = self.H / self.noise
        return solve(Equations(H @ H.T, rows.row_equations(H / self.noise).C))


@dataclass(frozen=True)
class Divergence:
    """The least Kullback-Leibler divergence of each row from ``w H``, plus ``penalties`` times the
    sums of ``w_k h_k``."""

    H: AnyArray
    penalties: AnyArray | None = None

    def __call__(self, rows: Table) -> AnyArray:
        H = self.H.astype(rows.dtype, copy=False)
        return encode_divergence(rows, H, 0.0 if self.penalties is None else self.penalties)


def with_encodings(result: Factorization, X: Table, encoder: LeastSquares) -> Factorization:
    """The factorization with W as the encoder has it, and its squared error."""
    equations = X.row_equations(encoder.H)
    W = encoder.codes(equations, result.W)
    return replace(result, W=W, error=equations.error(X.squared_norm, W))
