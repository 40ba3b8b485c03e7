r"""Whether a solution is optimal although the prices of some columns may be zero: those that depend
on passive columns.

Let ``x >= 0`` have the residual r, and let ``g`` be the prices of unit columns, in the terms of
`proof`. A column in *doubt* is one that is not held and whose :math:`v_j = g_j + lean` is positive,
rounding included; :math:`\omega` is the largest of these. Two facts show more than the sign of
``v``.

A column that is a passive one, or its negative, lies in the span of the held columns: its
coefficient and that of the passive one are one coefficient without a sign, for which the bound of
`proof` holds. So it is no doubt.

For any vector u let ``p_j`` be its products with unit columns, at least zero for the columns held
and at least :math:`\delta > 0` for those in doubt. An optimum ``h*`` has :math:`|Z h^*| \le |b|`,
because its residual is orthogonal to ``Z h*``, so

.. math:: \delta \sum_{doubt} h^*_j \le u \cdot Z h^* + \sum_{others} \max(-p_j, 0) h^*_j
          \le |u| |b| + \sum_{others} \max(-p_j, 0) h^*_j.

If :math:`\omega / \delta \max(-p_j, 0) \le -v_j` for all others, what these cost pays for the last
sum, and

.. math:: |r^*|^2 \ge |r|^2 - lean^2 - 2 |u| |b| \omega / \delta.

Such a vector is looked for in the span of the passive columns S. Let it have the products
:math:`q > 0` with them: it is :math:`u = Z_S y` with :math:`y = (Z_S^T Z_S)^{-1} q`. A column in
doubt whose part in the span is :math:`Z_S w_j` has :math:`p_j = w_j \cdot q`. So q has to be on the
positive side of every :math:`w_j`, and is found as by a perceptron: it begins with ones, and the
:math:`w_j` with the smallest product is added until the cost is low enough. Whatever y was
computed, it says what u is, so that errors of the inverse do no harm.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from conecollapse._kernels import kernel
from conecollapse._nnls.kernels import dot
from conecollapse._nnls.proof import EPS, OPTIMAL_WITHIN
from conecollapse._types import FloatArray, IntArray

IN_DOUBT = 1e-10  # prices of unit columns up to this share of |b| may be zero but for rounding
TURNS = 32  # columns in doubt that are added to q
SMALLEST = 0.01  # entry of q


class Passive(NamedTuple):
    """The k passive columns of n, and scratch."""

    S: IntArray  # (k,)
    inverse: FloatArray  # (k, k): of their products with each other, all for unit columns
    G: FloatArray  # (k, n): their products with all
    q: FloatArray  # (k,): scratch
    y: FloatArray  # (k,)
    p: FloatArray  # (n,)


@kernel(error_model="numpy", counting=False)
def set_aside(A, passive, x, g, b_norm):  # type: ignore[no-untyped-def]
    """Give zeros, copies of passive columns and their negatives a price of minus infinity: none of
    them is in doubt.

    Those with a price near zero are looked at, which are few as a rule.
    """
    m = len(A)
    for j in range(A.shape[1]):
        if x[j] != 0.0 or abs(g[j]) > IN_DOUBT * b_norm:
            continue
        t = 0
        while t < m and A[t, j] == 0.0:
            t += 1
        for a in range(2 * len(passive)):
            if t == m:
                break
            sign, s, t = 1.0 - 2.0 * (a % 2), passive[a // 2], 0
            while t < m and A[t, j] == sign * A[t, s]:
                t += 1
        if t == m:
            g[j] = -np.inf


@kernel(error_model="numpy", counting=False)
def largest_eigenvalue(inverse):  # type: ignore[no-untyped-def]
    """A bound for that of a symmetric matrix: its Frobenius norm, or the largest sum of a row."""
    squares, largest = 0.0, 0.0
    for a in range(len(inverse)):
        row = 0.0
        for e in range(len(inverse)):
            row += abs(inverse[a, e])
            squares += inverse[a, e] * inverse[a, e]
        largest = max(largest, row)
    return min(largest, np.sqrt(squares))


@kernel(error_model="numpy", counting=False)
def low_cost(rnorm, size):  # type: ignore[no-untyped-def]
    """What `cost_of_doubt` may be where a residual norm is to be shown to be optimal, with room to
    spare."""
    return 0.25 * OPTIMAL_WITHIN * rnorm * rnorm / size


@kernel(error_model="numpy", counting=False)
def cost_of_doubt(passive, h, v, m, worst, enough):  # type: ignore[no-untyped-def]
    """What columns in doubt can take from half the squared residual, for a right-hand side of unit
    length; infinity if no u says.

    A cost up to ``enough`` is not lowered further.
    """
    S, inverse, G, q, y, p = passive
    k, n, lowest_cost = len(S), len(h), np.inf
    for a in range(k):
        q[a] = 1.0
    for _ in range(TURNS):
        length = 0.0  # that u has at most
        for j in range(n):
            p[j] = 0.0
        for a in range(k):
            y[a] = dot(inverse[a], q)
            length += abs(y[a])
            for j in range(n):
                p[j] += y[a] * G[a, j]
        square = 0.0
        for a in range(k):
            square += y[a] * p[S[a]]
        lowest = np.int64(-1)
        for j in range(n):
            if h[j] == 0.0 and v[j] > 0.0 and (lowest < 0 or p[j] < p[lowest]):
                lowest = np.int64(j)
        rounding = EPS * (8.0 + np.sqrt(m) + np.sqrt(k)) * length
        cost = judged(h, v, p, rounding, worst) * np.sqrt(abs(square) + rounding * length)
        lowest_cost = min(lowest_cost, cost)
        if lowest_cost <= enough:
            break
        size = 0.0
        for a in range(k):
            y[a] = 0.0
            for e in range(k):
                y[a] += inverse[a, e] * G[e, lowest]
            size += y[a] * y[a]
        if not size > 0.0:
            break
        for a in range(k):
            q[a] = max(q[a] + y[a] / np.sqrt(size), SMALLEST)
    return lowest_cost


@kernel(error_model="numpy", counting=False)
def judged(h, v, p, rounding, worst):  # type: ignore[no-untyped-def]
    r"""The :math:`\omega / \delta` of a vector with the products ``p``, or infinity if these do not
    show anything."""
    delta = np.inf
    for j in range(len(h)):
        if h[j] > 0.0 or v[j] == -np.inf:
            if p[j] < rounding and p[j] != 0.0:
                return np.inf
        elif v[j] > 0.0 and p[j] - rounding < delta:
            delta = p[j] - rounding
    if not delta > 0.0:
        return np.inf
    for j in range(len(h)):
        low = rounding - p[j]
        if h[j] == 0.0 and -np.inf < v[j] <= 0.0 and low > 0.0 and worst / delta * low > -v[j]:
            return np.inf
    return worst / delta
