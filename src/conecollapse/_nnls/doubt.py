r"""Whether a solution is optimal although the prices of some columns may be zero: copies of passive columns, and their neighbours.

Let ``x >= 0`` have the residual r, and let ``g`` be the prices of unit columns, in the terms of `proof`. A column in *doubt* is one that is
not held and whose :math:`v_j = g_j + lean` is positive, rounding included; :math:`\omega` is the largest of these. Two facts show more
than the sign of ``v``.

A column that is a passive one, or its negative, lies in the span of the held columns: its coefficient and that of the passive one are
one coefficient without a sign, for which the bound of `proof` holds. So it is no doubt.

For any vector u let ``p_j`` be its products with unit columns, at least zero for the columns held and at least :math:`\delta > 0` for those
in doubt. An optimum ``h*`` has :math:`|Z h^*| \le |b|`, because its residual is orthogonal to ``Z h*``, so

.. math:: \delta \sum_{doubt} h^*_j \le u \cdot Z h^* + \sum_{others} \max(-p_j, 0) h^*_j
          \le |u| |b| + \sum_{others} \max(-p_j, 0) h^*_j.

If :math:`\omega / \delta \max(-p_j, 0) \le -v_j` for all others, what these cost pays for the last sum, and

.. math:: |r^*|^2 \ge |r|^2 - lean^2 - 2 |u| |b| \omega / \delta.

Two vectors are tried: that of ones, which suits columns without negative entries, and the one with products of one with all passive
columns, which suits neighbours of these. The passive columns are orthogonalized, which also corrects x.
"""

from __future__ import annotations

import numpy as np

from conecollapse._kernels import kernel
from conecollapse._nnls.confirm import FAST, set_aside
from conecollapse._nnls.kernels import axpy, dot, smallest_singular_value
from conecollapse._nnls.local import LEAST_LENGTH, MOST_LENGTH
from conecollapse._nnls.proof import EPS, SAFETY, ZERO_RESIDUAL
from conecollapse._types import FloatArray

DEPENDENT = 1e-12  # a unit column with a smaller part outside the span of others is not orthogonalized
CORRECTIONS = 1  # of x
WITHIN = 1e-8  # a residual that may be further above the smallest one, by this share, is left to others, who do better

COEFFICIENT, PRICE, ALONG, LENGTH, COUNT = range(5)  # rows of a table with a column for each column of A: h, g, p and the lengths


def without_doubt(A: FloatArray, x: FloatArray, b: FloatArray) -> tuple[FloatArray, float, float]:
    """``x`` corrected, its residual norm, and a residual norm that no ``x >= 0`` undercuts, if that shows that x is optimal; else zero."""
    used = x.nonzero()[0]
    (m, n), k = A.shape, len(used)
    if k > m:
        return x, 0.0, 0.0
    T = np.empty((COUNT, n))
    rnorm, least = _prove(A, x, b, used, T, np.empty((k + 2, m)), np.empty((k, k)))
    return (T[COEFFICIENT] / T[LENGTH], rnorm, least) if least > 0 else (x, rnorm, 0.0)


@kernel(error_model="numpy")
def _prove(A, x, b, used, T, Q, R):  # type: ignore[no-untyped-def]
    """Write the coefficients and lengths to ``T``. The residual norm, and the lower bound or zero. ``Q`` is for a basis, r and u."""
    (m, n), k = A.shape, len(used)
    r, u = Q[k], Q[k + 1]
    v, w = np.empty(k), np.empty(k)
    size = np.sqrt(dot(b, b))
    if not LEAST_LENGTH < size < MOST_LENGTH or not _orthogonalize(A, x, used, T, Q, R):
        return 0.0, 0.0
    rnorm, total = 0.0, 0.0
    for turn in range(CORRECTIONS + 1):
        if turn > 0:  # by the solution of R d = Q r
            for a in range(k - 1, -1, -1):
                d = dot(Q[a], r)
                for e in range(a + 1, k):
                    d -= R[a, e] * v[e]
                v[a] = d / R[a, a]
            for a in range(k):
                T[COEFFICIENT, used[a]] += v[a]
        total = 0.0
        for a in range(k):
            if not T[COEFFICIENT, used[a]] > 0.0:
                return 0.0, 0.0
            total += T[COEFFICIENT, used[a]]
        for t in range(m):
            s = 0.0
            for a in range(k):
                s += A[t, used[a]] * (T[COEFFICIENT, used[a]] / T[LENGTH, used[a]])
            r[t] = b[t] - s
        rnorm = np.sqrt(dot(r, r))
    _along(A, r, T, PRICE)
    set_aside(A, used, T[COEFFICIENT], T[PRICE], size)
    rounding = EPS * (4.0 + np.sqrt(k)) * (size + total)
    noise, wrong = rounding + EPS * (4.0 + np.sqrt(m)) * rnorm, 0.0
    for a in range(k):
        wrong += (abs(T[PRICE, used[a]]) + noise) ** 2
    lean = SAFETY * np.sqrt(wrong) / smallest_singular_value(R, k, v, w) if k > 0 else 0.0
    worst = -np.inf
    for j in range(n):
        T[PRICE, j] += noise + lean
        if T[COEFFICIENT, j] == 0.0 and T[PRICE, j] > worst:
            worst = T[PRICE, j]
    for turn in range(3):
        cost = 0.0
        if worst > 0.0:
            if turn == 0:
                continue
            _point(Q, R, u, turn == 1)
            cost = _cost(A, u, T, worst) * size
        square = rnorm * rnorm - lean * lean - 2.0 * cost
        least = np.sqrt(square) - rounding if square > 0.0 else 0.0
        if rnorm + rounding <= (1.0 + WITHIN) * least + ZERO_RESIDUAL * size and least > 0.0:
            return rnorm, least
        if worst <= 0.0:
            break
    return rnorm, 0.0


@kernel(error_model="numpy", fastmath=FAST, counting=False)
def _orthogonalize(A, x, used, T, Q, R):  # type: ignore[no-untyped-def]
    """Write the lengths, the coefficients of unit columns and a QR factorization of the ``used`` ones; False if these depend on each other.

    Gram and Schmidt's method, twice. A column of zeros has the length one.
    """
    (m, n), k = A.shape, len(used)
    for j in range(n):
        T[LENGTH, j] = 0.0
    for t in range(m):
        for j in range(n):
            T[LENGTH, j] += A[t, j] * A[t, j]
    for j in range(n):
        if not LEAST_LENGTH * LEAST_LENGTH < T[LENGTH, j] < MOST_LENGTH * MOST_LENGTH:
            for t in range(m):
                if A[t, j] != 0.0:
                    return False
            T[LENGTH, j] = 1.0
        T[LENGTH, j] = np.sqrt(T[LENGTH, j])
        T[COEFFICIENT, j] = x[j] * T[LENGTH, j]
    for e in range(k):
        for t in range(m):
            Q[e, t] = A[t, used[e]] / T[LENGTH, used[e]]
        for a in range(e):
            R[a, e] = 0.0
        for _ in range(2):
            for a in range(e):
                c = dot(Q[a], Q[e])
                axpy(-c, Q[a], Q[e])
                R[a, e] += c
        R[e, e] = np.sqrt(dot(Q[e], Q[e]))
        if not R[e, e] > DEPENDENT:
            return False
        for t in range(m):
            Q[e, t] /= R[e, e]
    return True


@kernel(error_model="numpy", fastmath=FAST, counting=False)
def _along(A, v, T, row):  # type: ignore[no-untyped-def]
    """Write the products of v with unit columns to a row of ``T``."""
    m, n = A.shape
    for j in range(n):
        T[row, j] = 0.0
    for t in range(m):
        for j in range(n):
            T[row, j] += v[t] * A[t, j]
    for j in range(n):
        T[row, j] /= T[LENGTH, j]


@kernel(error_model="numpy", counting=False)
def _point(Q, R, u, with_ones):  # type: ignore[no-untyped-def]
    """Write the vector of ones, or the one in the span of the passive columns that has a product of one with each of them."""
    k = len(R)
    for t in range(len(u)):
        u[t] = 1.0 if with_ones else 0.0
    if not with_ones:
        for a in range(k):  # u = Q' y with R' y = 1; the part of u so far has the products that R' y has
            s = 1.0
            for e in range(a):
                s -= R[e, a] * dot(Q[e], u)
            axpy(s / R[a, a], Q[a], u)


@kernel(error_model="numpy", counting=False)
def _cost(A, u, T, worst):  # type: ignore[no-untyped-def]
    """What columns in doubt can take from half the squared residual, for a right-hand side of unit length; infinity if u does not say."""
    _along(A, u, T, ALONG)
    length = np.sqrt(dot(u, u))
    rounding = EPS * (4.0 + np.sqrt(len(u))) * length
    delta = np.inf
    for j in range(A.shape[1]):
        p = T[ALONG, j] - rounding
        if T[COEFFICIENT, j] > 0.0 or T[PRICE, j] == -np.inf:
            if p < 0.0 and T[ALONG, j] != 0.0:
                return np.inf
        elif T[PRICE, j] > 0.0 and p < delta:
            delta = p
    if not delta > 0.0:
        return np.inf
    for j in range(A.shape[1]):
        p = T[ALONG, j] - rounding
        if T[COEFFICIENT, j] == 0.0 and -np.inf < T[PRICE, j] <= 0.0 and p < 0.0 and worst / delta * -p > -T[PRICE, j]:
            return np.inf
    return worst / delta * length
