"""Encoders: the best rows of W for new samples, over the components of a fitted model.

An encoder is a record of a model's components. It is called with the rows of a table in the working
unit of the fit, and `reordered` gives the same model with its components in another order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol, Self

import numpy as np

from conecollapse._types import AnyArray, IntArray
from conecollapse.factorization.kl import encode_divergence
from conecollapse.factorization.rows import solve
from conecollapse.tables import Equations, Table


class Encoder(Protocol):
    """What a model needs to encode samples."""

    def __call__(self, rows: Table, start: AnyArray | None = None) -> AnyArray:
        """The codes of these rows; sets of positive entries of ``start`` are tried first."""

    def reordered(self, order: IntArray) -> Self:
        """The same model with its components in this order."""


@dataclass(frozen=True)
class LeastSquares:
    """``min |x - w H|^2`` over w >= 0."""

    H: AnyArray

    def __call__(self, rows: Table, start: AnyArray | None = None) -> AnyArray:
        return solve(rows.row_equations(self.H), start)

    def reordered(self, order: IntArray) -> Self:
        return replace(self, H=self.H[order])


@dataclass(frozen=True)
class ScaledLeastSquares:
    """``min |(x - w H) / s|^2`` over w >= 0, where ``s`` holds the size of each feature's noise."""

    H: AnyArray
    noise: AnyArray

    def __call__(self, rows: Table, start: AnyArray | None = None) -> AnyArray:
        H = self.H / self.noise
        return solve(Equations(H @ H.T, rows.row_equations(H / self.noise).C), start)

    def reordered(self, order: IntArray) -> Self:
        return replace(self, H=self.H[order])


@dataclass(frozen=True)
class Divergence:
    """The least Kullback-Leibler divergence of each row from ``w H``, plus ``penalties`` times the
    sums of ``w_k h_k``."""

    H: AnyArray
    penalties: AnyArray | float = 0.0

    def __call__(self, rows: Table, start: AnyArray | None = None) -> AnyArray:  # noqa: ARG002
        return encode_divergence(rows, self.H.astype(rows.dtype, copy=False), self.penalties)

    def reordered(self, order: IntArray) -> Self:
        penalties = self.penalties
        if isinstance(penalties, np.ndarray):
            penalties = penalties[order]
        return replace(self, H=self.H[order], penalties=penalties)
