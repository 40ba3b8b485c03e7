r"""Coordinate descent on the Kullback-Leibler divergence of rows, over the entries that are stored.

For one row x of the table, with the rows :math:`h_k` of H fixed, the divergence as a function of a
change d of the coefficient :math:`w_k` has the derivative :math:`s - A(d)`, where, with the model
:math:`m = w H`,

.. math:: s = \sum_j h_{kj}, \qquad A(d) = \sum_j \frac{x_j h_{kj}}{m_j + d\, h_{kj}}, \qquad
          B = -A'(0) = \sum_j \frac{x_j h_{kj}^2}{m_j^2} .

Only entries with x > 0 count in A. The parallel sum of linear functions :math:`\psi = 1 / A` is
concave, and where A = s it equals 1 / s. Newton's step for this equation is

.. math:: d = \frac{A}{B} \Big(\frac{A}{s} - 1\Big) .

Because :math:`w_k h_{kj} \le m_j`, the factor A / B is at least :math:`w_k`, and with :math:`w_k`
in its place this is the multiplicative update: the step goes the same way, and further. *It never
raises the divergence.* Upwards (A > s) a tangent of a concave function meets 1 / s before the
function does. Downwards it may go too far, so there A is looked up at the end of the step, and the
chord of :math:`\psi` between the two places is followed instead, which lies below it and so meets 1
/ s early. A coefficient that falls to zero may rise again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from conecollapse._kernels import kernel
from conecollapse._threads import for_ranges
from conecollapse._types import AnyArray

LEAST = 1e-30  # a model below this share of its entry counts as this share,
# and as this where the entry is zero, too; its inverse times a coefficient stays in range
TINY = 1e-150
SMALLEST = 64  # rows that are worth a thread
_FAST = {"reassoc", "contract", "arcp", "nsz"}


class Entries(NamedTuple):
    """The stored entries of each row, as in a CSR array."""

    indptr: AnyArray
    indices: AnyArray
    data: AnyArray


class Effort(NamedTuple):
    """At most so many sweeps over the coefficients of a row; it ends when one moves its model by
    ``still`` of what the first did."""

    sweeps: int
    still: float
    measures: bool = True  # whether the sum of x log(x / wh) is asked for; it is zero if not


def improve(
    of_rows: Callable[..., None], W: AnyArray, totals: AnyArray, effort: Effort
) -> tuple[AnyArray, float]:
    """W after coordinate descent on every row, and the sum of x log(x / wh); ``of_rows`` is a
    kernel with its first arguments.

    ``totals`` (1 or rows, r) is the sum s of the module's text for each coefficient, in one row for
    all or a row for each.
    """
    out = np.array(W, order="C")
    total = np.ascontiguousarray(totals, np.float64)
    logs = np.empty(len(W))

    def work(start: int, stop: int) -> None:
        of_rows(total, out, logs, effort, start, stop)

    for_ranges(work, len(W), smallest=SMALLEST)
    return out, float(logs.sum())


@kernel
def improve_sparse_rows(entries, Ht, total, W, logs, effort, start, stop):  # type: ignore[no-untyped-def]
    """Lower the divergence of the rows ``start`` to ``stop`` by changes of W; ``logs`` receives
    their sums of x log(x / m)."""
    most = 0
    for i in range(start, stop):
        most = max(most, entries.indptr[i + 1] - entries.indptr[i])
    r = W.shape[1]
    block = np.empty(r * most)
    # apart, so that the compiler sees that their entries are adjacent
    x, model, inverse = np.empty(most), np.empty(most), np.empty(most)
    for i in range(start, stop):
        first = entries.indptr[i]
        p = entries.indptr[i + 1] - first
        H = block[: r * p].reshape(r, p)
        for t in range(p):
            x[t] = entries.data[first + t]
            h = Ht[entries.indices[first + t]]
            for k in range(r):
                H[k, t] = h[k]
        logs[i] = _improve_row(
            x[:p], H, total[i if len(total) > 1 else 0], W[i], model[:p], inverse[:p], effort
        )


@kernel
def improve_dense_rows(X, H, total, W, logs, effort, start, stop):  # type: ignore[no-untyped-def]
    """The same for rows of a dense array."""
    x, model, inverse = np.empty(X.shape[1]), np.empty(X.shape[1]), np.empty(X.shape[1])
    for i in range(start, stop):
        for j in range(X.shape[1]):
            x[j] = X[i, j]
        logs[i] = _improve_row(
            x, H, total[i if len(total) > 1 else 0], W[i], model, inverse, effort
        )


# a test of each divisor would keep loops from using vector instructions
@kernel(fastmath=_FAST, error_model="numpy")
def _improve_row(x, H, total, w, model, inverse, effort):  # type: ignore[no-untyped-def]
    r, p = H.shape
    model[:] = 0.0
    for k in range(r):
        if w[k] > 0:
            for j in range(p):
                model[j] += w[k] * H[k, j]
    for j in range(p):
        model[j] = max(model[j], LEAST * x[j] + TINY)
        inverse[j] = 1.0 / model[j]
    first = 0.0
    for sweep in range(effort.sweeps):
        moved = 0.0
        for k in range(r):
            h = H[k]
            d = _step(x, h, total[k], float(w[k]), model, inverse)
            if d != 0:
                moved = max(moved, abs(d) * total[k])
                w[k] = max(w[k] + d, 0.0)
                for j in range(p):
                    m = max(model[j] + d * h[j], LEAST * x[j] + TINY)
                    model[j], inverse[j] = m, 1.0 / m
        if sweep == 0:
            first = moved
        if moved <= effort.still * first:
            break
    logs = 0.0
    for j in range(p if effort.measures else 0):
        if x[j] > 0:
            logs += x[j] * np.log(x[j] * inverse[j])
    return logs


@kernel(fastmath=_FAST, error_model="numpy")
def _step(x, h, s, w, model, inverse):  # type: ignore[no-untyped-def]
    """How far to move one coefficient."""
    if s <= 0:
        return 0.0
    A, B = 0.0, 0.0
    for j in range(x.shape[0]):
        q = h[j] * inverse[j]
        A += x[j] * q
        B += x[j] * q * q
    if w == 0 and s >= A:
        return 0.0
    if B <= 0:  # nothing of the row is on this component
        return -w
    d = A / B * (A / s - 1)
    if d >= 0:
        return d
    d = max(d, -w)
    there = 0.0
    for j in range(x.shape[0]):
        there += x[j] * h[j] / max(model[j] + d * h[j], LEAST * x[j] + TINY)
    if there <= s:
        return d
    slope = 1 / there - 1 / A
    return d * (1 / s - 1 / A) / slope if slope != 0 else d
