"""What the methods ask of the data: products and a norm, whether X is dense, sparse or only an operator.

A method never looks inside X. It uses ``X @ B``, ``X.T @ B`` and the squared norm, which a dense array, a CSR array and a
`scipy.sparse.linalg.LinearOperator` with a ``squared_norm`` all give. So sparse data stay sparse, and a diffused graph is never formed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from conecollapse._errors import InvalidInputError
from conecollapse._iterate import Trace
from conecollapse._types import AnyArray, Points

ROUNDING = 8.0  # units in the last place of |X|^2 that an objective made of large cancelling terms can be off by
BLOCK = 2**22  # entries of dense data treated at once


@dataclass(frozen=True)
class Factorization:
    """``X ~ W H`` with W (n_samples, r) and H (r, n_features); for orthogonal methods W is the paper's A and H its S."""

    W: AnyArray
    H: AnyArray
    objective: float
    history: AnyArray  # the objective of the start and after every iteration
    converged: bool
    status: str
    scale: float  # what the objective is a share of: |X|^2, or the sum of X for the divergence
    error: float  # |X - W H|^2, which is the objective unless that is a divergence or has penalties

    @property
    def n_iter(self) -> int:
        """Number of iterations."""
        return len(self.history) - 1

    @classmethod
    def of(cls, W: AnyArray, H: AnyArray, objective: float, trace: Trace[Any], scale: float, error: float | None = None) -> Factorization:
        """These factors, with how the run that led to them went."""
        return cls(W, H, objective, trace.history, trace.converged, trace.status, scale, objective if error is None else error)


def squared_norm(X: Points) -> float:
    """Sum of the squares of the entries, in float64.

    Refused where the type of X cannot hold it: nothing that the methods compute is larger, so that with it all their numbers are finite.
    """
    if sp.issparse(X):
        X = X.data
    elif not isinstance(X, np.ndarray):
        return float(X.squared_norm)
    flat = X.reshape(-1)
    with np.errstate(over="ignore", under="ignore"):
        norm2 = float(sum(np.sum(np.square(flat[a : a + BLOCK], dtype=np.float64)) for a in range(0, flat.size, BLOCK)))
    limits = np.finfo(X.dtype)
    if not float(limits.tiny) <= norm2 <= float(limits.max) and flat.any():
        raise InvalidInputError(
            f"the squares of X, whose largest entry is {float(flat.max()):.3g}, leave the range of {X.dtype}; divide X by that entry first."
        )
    return norm2


def mean_entry(X: Points) -> float:
    """Mean over all entries, the zeros of a sparse matrix included."""
    n, m = X.shape
    total = X.sum(dtype=np.float64) if isinstance(X, np.ndarray) or sp.issparse(X) else float((X @ np.ones((m, 1))).sum())
    return float(total) / (n * m)


def rounding_of(X: Points, norm2: float) -> float:
    """What rounding may do to a squared error of X."""
    return ROUNDING * float(np.finfo(X.dtype).eps) * norm2


def squared_error(norm2: float, XHt: AnyArray, W: AnyArray, WtW: AnyArray, HHt: AnyArray) -> float:
    """``|X - W H|^2 = |X|^2 - 2 <X H', W> + <W'W, H H'>``, without a residual matrix. Never below zero."""
    cross = np.einsum("ij,ij->", XHt, W, dtype=np.float64)
    model = np.einsum("ij,ij->", WtW, HHt, dtype=np.float64)
    return max(float(norm2 - 2 * cross + model), 0.0)
