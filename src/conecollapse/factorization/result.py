"""What every method returns, and how the error is had from products alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from conecollapse._iterate import Trace
from conecollapse._types import AnyArray
from conecollapse.tables import Equations, Table

# units in the last place of |X|^2 that an objective made of large cancelling terms can be off by
ROUNDING = 8.0


@dataclass(frozen=True)
class Factorization:
    """``X ~ W H`` with W (n_samples, r) and H (r, n_features); for orthogonal methods W is the
    paper's A and H its S."""

    W: AnyArray
    H: AnyArray
    objective: float
    history: AnyArray  # the objective of the start and after every iteration
    converged: bool
    status: str
    scale: float  # what the objective is a share of: |X|^2, or the sum of X for the divergence
    error: float  # |X - W H|^2, which is the objective unless that is a divergence or has penalties
    norm2: float | None = None  # what the error is a share of, where that is not |X|^2 of the table

    @property
    def n_iter(self) -> int:
        """Number of iterations."""
        return len(self.history) - 1

    @classmethod
    def of(
        cls,
        W: AnyArray,
        H: AnyArray,
        objective: float,
        trace: Trace[Any],
        scale: float,
        error: float | None = None,
    ) -> Factorization:
        """These factors, with how the run that led to them went."""
        return cls(
            W,
            H,
            objective,
            trace.history,
            trace.converged,
            trace.status,
            scale,
            objective if error is None else error,
        )


def rounding_of(X: Table, norm2: float) -> float:
    """What rounding may do to a squared error of X."""
    return ROUNDING * float(np.finfo(X.dtype).eps) * norm2


def squared_error(X: Table, W: AnyArray, H: AnyArray) -> float:
    """``|X - W H|^2`` without a residual matrix."""
    return X.row_equations(H).error(X.squared_norm, W)


def squared_error_from(
    norm2: float, XHt: AnyArray, W: AnyArray, WtW: AnyArray, HHt: AnyArray
) -> float:
    """The same from products that are there already."""
    return Equations(HHt, XHt).error(norm2, W, WtW)
