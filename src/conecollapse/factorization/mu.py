r"""Multiplicative updates (Lee & Seung 2001) for the Frobenius norm and the Kullback-Leibler divergence.

For :math:`\|X - WH\|^2`

.. math:: W \leftarrow W \odot \frac{X H^T}{W H H^T}, \qquad H \leftarrow H \odot \frac{W^T X}{W^T W H}

and for :math:`D(X \| WH) = \sum x \log (x / wh) - x + wh`, with :math:`Q = X / (W H)` entry by entry,

.. math:: W \leftarrow W \odot \frac{Q H^T}{1 H^T}, \qquad H \leftarrow H \odot \frac{W^T Q}{W^T 1}.

Neither raises its objective. An entry that is zero stays zero, so starts should be positive. Q is needed only where x > 0: for sparse
X it is formed there and nowhere else, for dense X a block of rows at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from conecollapse._errors import InvalidInputError
from conecollapse._iterate import Callback, iterate
from conecollapse._kernels import kernel
from conecollapse._threads import for_ranges
from conecollapse._types import AnyArray, Points, Progress
from conecollapse.factorization.data import BLOCK, Factorization, rounding_of, squared_error, squared_norm

TINY = float(np.finfo(np.float32).eps)  # stands for a denominator that is zero


@dataclass(frozen=True)
class _State:
    W: AnyArray
    H: AnyArray
    XHt: AnyArray  # X H' or Q H', whichever the loss needs for the next W
    HHt: AnyArray
    objective: float


def mu(
    X: Points,
    W: AnyArray,
    H: AnyArray,
    *,
    loss: str = "frobenius",
    tol: float = 1e-5,
    max_iter: int = 500,
    callback: Callback = None,
    progress: Progress = None,
) -> Factorization:
    """``X ~ W H`` from the start (W, H) by multiplicative updates; ``loss`` is "frobenius" or "kullback-leibler"."""
    step, start, rounding, scale = _LOSSES[loss](X, W, H)
    trace = iterate(step, start, tol=tol, max_iter=max_iter, rounding=rounding, callback=callback, progress=progress, stage="MU")
    state = trace.state
    error = None
    if loss != "frobenius":
        W, H = state.W, state.H
        error = squared_error(squared_norm(X), X @ H.T, W, W.T @ W, H @ H.T)
    return Factorization.of(state.W, state.H, state.objective, trace, scale, error)


def encode_divergence(X: Points, H: AnyArray, n_iter: int = 200) -> AnyArray:
    """Rows w >= 0 that minimise the divergence of each row of X from ``w H``: a fixed number of updates, so that rows do not meet.

    The problem is convex, so the start does not matter; an entry that tends to zero does so only in the limit.
    """
    quotients = _SparseQuotients(X) if sp.issparse(X) else _DenseQuotients(X)
    total = H.sum(axis=1)
    mass = np.asarray(X.sum(axis=1)).reshape(-1, 1)
    W = np.asarray(mass / max(float(total.sum()), TINY) * np.ones_like(total)[None, :], X.dtype)
    for _ in range(n_iter):
        W = W * ratio(quotients.right(W, H)[0], total[None, :])
    return W


def ratio(numerator: AnyArray, denominator: AnyArray) -> AnyArray:
    """Quotient of non-negative arrays in which a zero denominator counts as tiny."""
    return numerator / np.where(denominator > 0, denominator, denominator.dtype.type(TINY))


_Prepared = tuple[Callable[[_State], _State], _State, float, float]  # step, start, rounding, scale


def _frobenius(X: Points, W: AnyArray, H: AnyArray) -> _Prepared:
    norm2 = squared_norm(X)

    def step(s: _State) -> _State:
        W = s.W * ratio(s.XHt, s.W @ s.HHt)
        WtW, WtX = W.T @ W, (X.T @ W).T
        H = s.H * ratio(WtX, WtW @ s.H)
        HHt = H @ H.T
        return _State(W, H, X @ H.T, HHt, squared_error(norm2, WtX, H, WtW, HHt))

    XHt, HHt = X @ H.T, H @ H.T
    start = _State(W, H, XHt, HHt, squared_error(norm2, XHt, W, W.T @ W, HHt))
    return step, start, rounding_of(X, norm2), norm2


def _kullback_leibler(X: Points, W: AnyArray, H: AnyArray) -> _Prepared:
    if not (isinstance(X, np.ndarray) or sp.issparse(X)):
        raise InvalidInputError("the Kullback-Leibler loss looks at single entries, which an operator does not have; use frobenius.")
    quotients = _SparseQuotients(X) if sp.issparse(X) else _DenseQuotients(X)

    def divergence(logs: float, W: AnyArray, H: AnyArray) -> float:
        model = float(W.sum(axis=0, dtype=np.float64) @ H.sum(axis=1, dtype=np.float64))
        return max(logs - quotients.total + model, 0.0)

    def step(s: _State) -> _State:
        W = s.W * ratio(s.XHt, s.H.sum(axis=1)[None, :])
        H = s.H * ratio(quotients.left(W, s.H), W.sum(axis=0)[:, None])
        QHt, logs = quotients.right(W, H)
        return _State(W, H, QHt, s.HHt, divergence(logs, W, H))

    QHt, logs = quotients.right(W, H)
    start = _State(W, H, QHt, np.zeros((0, 0)), divergence(logs, W, H))
    return step, start, rounding_of(X, quotients.total), quotients.total


class _DenseQuotients:
    """Products with ``Q = X / (W H)`` for dense X, a block of rows at a time."""

    def __init__(self, X: AnyArray) -> None:
        self.X = X
        self.total = float(X.sum(dtype=np.float64))
        self.step = max(1, BLOCK // X.shape[1])

    def right(self, W: AnyArray, H: AnyArray) -> tuple[AnyArray, float]:
        """``Q H'`` and the sum of x log(x / wh)."""
        out, logs = np.empty_like(W), 0.0
        for rows, Q in self._blocks(W, H):
            out[rows] = Q @ H.T
            with np.errstate(divide="ignore", invalid="ignore"):
                terms = self.X[rows] * np.log(Q)
            logs += float(terms.sum(dtype=np.float64, where=self.X[rows] > 0))
        return out, logs

    def left(self, W: AnyArray, H: AnyArray) -> AnyArray:
        """``W' Q``."""
        out = np.zeros_like(H)
        for rows, Q in self._blocks(W, H):
            out += W[rows].T @ Q
        return out

    def _blocks(self, W: AnyArray, H: AnyArray) -> Any:
        for a in range(0, len(self.X), self.step):
            rows = slice(a, a + self.step)
            yield rows, ratio(self.X[rows], W[rows] @ H)


class _SparseQuotients:
    """Products with ``Q = X / (W H)``, formed only at the stored entries of a sparse X."""

    def __init__(self, X: Any) -> None:
        self.X = X
        self.total = float(X.data.sum(dtype=np.float64))

    def right(self, W: AnyArray, H: AnyArray) -> tuple[AnyArray, float]:
        Q = self._quotients(W, H)
        logs = float((self.X.data * np.log(Q.data)).sum(dtype=np.float64))
        return Q @ H.T, logs

    def left(self, W: AnyArray, H: AnyArray) -> AnyArray:
        return (self._quotients(W, H).T @ W).T

    def _quotients(self, W: AnyArray, H: AnyArray) -> Any:
        X, model = self.X, np.empty_like(self.X.data)
        Ht = np.ascontiguousarray(H.T)

        def work(start: int, stop: int) -> None:
            _sampled_product(W, Ht, X.indptr, X.indices, start, stop, model)

        for_ranges(work, X.shape[0], smallest=256)
        return sp.csr_array((ratio(X.data, model), X.indices, X.indptr), shape=X.shape)


@kernel(fastmath=True)
def _sampled_product(W, Ht, indptr, indices, start, stop, out):  # type: ignore[no-untyped-def]
    """Entries of ``W H`` at the stored places of rows start to stop."""
    r = W.shape[1]
    for i in range(start, stop):
        for q in range(indptr[i], indptr[i + 1]):
            j = indices[q]
            s = W[i, 0] * Ht[j, 0]
            for k in range(1, r):
                s += W[i, k] * Ht[j, k]
            out[q] = s


_LOSSES: dict[str, Callable[[Points, AnyArray, AnyArray], _Prepared]] = {
    "frobenius": _frobenius,
    "kullback-leibler": _kullback_leibler,
}
LOSSES = tuple(_LOSSES)
