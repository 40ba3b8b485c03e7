r"""Whether a solution is optimal although the prices of some columns may be zero: those that depend on passive columns.

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

Such a vector is looked for in the span of the passive columns S. Let it have the products :math:`q > 0` with them: it is
:math:`u = Z_S y` with :math:`y = (Z_S^T Z_S)^{-1} q`. A column in doubt whose part in the span is :math:`Z_S w_j` has
:math:`p_j = w_j \cdot q`. So q has to be on the positive side of every :math:`w_j`, and is found as by a perceptron: it begins with ones,
and the :math:`w_j` with the smallest product is added until none is left that is not positive. Whatever y was computed, it says what u is,
so that errors of the inverse do no harm. If there is none, the vector of ones is tried, which suits columns without negative entries.
"""

from __future__ import annotations

import numpy as np

from conecollapse._kernels import kernel
from conecollapse._nnls.confirm import FAST, set_aside
from conecollapse._nnls.kernels import dot
from conecollapse._nnls.local import LEAST_LENGTH, MOST_LENGTH
from conecollapse._nnls.proof import EPS, ZERO_RESIDUAL
from conecollapse._types import FloatArray

DEPENDENT = 1e-10  # a unit column with a smaller squared part outside the span of others is not inverted
CORRECTIONS = 2  # of x
WITHIN = 1e-6  # a residual that may be further above the smallest one, by this share, is left to others, who do better
TURNS = 32  # columns in doubt that are added to q
SMALLEST = 0.01  # entry of q
MARGIN = 1.1  # for rounding of an inverse, which `DEPENDENT` keeps below a thousandth

COEFFICIENT, PRICE, LENGTH, Q, Y, P, COUNT = range(7)  # rows of a table with a column for each column of A


def without_doubt(A: FloatArray, x: FloatArray, b: FloatArray) -> tuple[FloatArray, float, float]:
    """``x`` corrected, its residual norm, and a residual norm that no ``x >= 0`` undercuts, if that shows that x is optimal; else zero."""
    used = x.nonzero()[0]
    (m, n), k = A.shape, len(used)
    if k > m:
        return x, 0.0, 0.0
    T = np.empty((COUNT, n))
    rnorm, least = _prove(A, x, b, used, T, np.empty((k, n)), np.empty((k, k)), np.empty(m))
    return (T[COEFFICIENT] / T[LENGTH], rnorm, least) if least > 0 else (x, rnorm, 0.0)


@kernel(error_model="numpy")
def _prove(A, x, b, used, T, cross, inverse, r):  # type: ignore[no-untyped-def]
    """Write the coefficients and lengths to ``T``. The residual norm, and the lower bound or zero."""
    (m, n), k = A.shape, len(used)
    h, g = T[COEFFICIENT], T[PRICE]
    size = np.sqrt(dot(b, b))
    if not LEAST_LENGTH < size < MOST_LENGTH or not _multiply(A, x, used, T, cross) or not _invert(cross, used, inverse, T[Q]):
        return 0.0, 0.0
    rnorm, rounding, noise, wrong, worst = 0.0, 0.0, 0.0, np.inf, -np.inf
    for turn in range(CORRECTIONS + 1):
        total = 0.0
        for a in range(k):
            if not h[used[a]] > 0.0:
                return 0.0, 0.0
            total += h[used[a]]
        for j in range(n):
            T[Y, j] = h[j] / T[LENGTH, j]
        rnorm = _price(A, b, r, T)
        rounding = EPS * (4.0 + np.sqrt(k)) * (size + total)
        noise, wrong = rounding + EPS * (4.0 + np.sqrt(m)) * rnorm, 0.0
        for a in range(k):
            wrong += (abs(g[used[a]]) + noise) ** 2
        if turn == CORRECTIONS or wrong <= 4.0 * k * noise * noise:  # no worse than rounding
            break
        for a in range(k):
            for e in range(k):
                h[used[a]] += inverse[a, e] * g[used[e]]
    set_aside(A, used, h, g, size)
    lean = MARGIN * np.sqrt(wrong * largest_eigenvalue(inverse, k))
    for j in range(n):
        g[j] += noise + lean
        if h[j] == 0.0 and g[j] > worst:
            worst = g[j]
    for with_ones in range(2):
        cost = 0.0
        if worst > 0.0:
            cost = size * (cost_with_ones(A, T, worst) if with_ones else cost_of_doubt(inverse, cross, h, g, T[Q:], m, worst))
        square = rnorm * rnorm - lean * lean - 2.0 * cost
        least = np.sqrt(square) - rounding if square > 0.0 else 0.0
        if rnorm + rounding <= (1.0 + WITHIN) * least + ZERO_RESIDUAL * size and least > 0.0:
            return rnorm, least
    return rnorm, 0.0


@kernel(error_model="numpy", fastmath=FAST, counting=False)
def _multiply(A, x, used, T, cross):  # type: ignore[no-untyped-def]
    """Write the lengths, that of a column of zeros as one, the coefficients of unit columns, and the products of the used ones with all.

    False if squares are lost.
    """
    m, n = A.shape
    for j in range(n):
        T[LENGTH, j] = 0.0
        for a in range(len(used)):
            cross[a, j] = 0.0
    for t in range(m):
        for j in range(n):
            T[LENGTH, j] += A[t, j] * A[t, j]
        for a in range(len(used)):
            s = A[t, used[a]]
            for j in range(n):
                cross[a, j] += s * A[t, j]
    for j in range(n):
        if not LEAST_LENGTH * LEAST_LENGTH < T[LENGTH, j] < MOST_LENGTH * MOST_LENGTH:
            for t in range(m):
                if A[t, j] != 0.0:
                    return False
            T[LENGTH, j] = 1.0
        T[LENGTH, j] = np.sqrt(T[LENGTH, j])
        T[COEFFICIENT, j] = x[j] * T[LENGTH, j]
    for a in range(len(used)):
        for j in range(n):
            cross[a, j] /= T[LENGTH, used[a]] * T[LENGTH, j]
    return True


@kernel(error_model="numpy", fastmath=FAST, counting=False)
def _invert(cross, used, inverse, w):  # type: ignore[no-untyped-def]
    """Write the inverse of the products of the used columns with each other, a column at a time; False if these are dependent."""
    for c in range(len(used)):
        left = 1.0
        for a in range(c):
            w[a] = 0.0
            for e in range(c):
                w[a] += inverse[a, e] * cross[e, used[c]]
            left -= w[a] * cross[a, used[c]]
        if not left > DEPENDENT:
            return False
        for a in range(c):
            for e in range(c):
                inverse[a, e] += w[a] * w[e] / left
            inverse[a, c] = -w[a] / left
            inverse[c, a] = -w[a] / left
        inverse[c, c] = 1.0 / left
    return True


@kernel(error_model="numpy", fastmath=FAST, counting=False)
def _price(A, b, r, T):  # type: ignore[no-untyped-def]
    """Write the residual of the solution in row ``Y`` to ``r``, and the prices of unit columns; the residual norm."""
    m, n = A.shape
    square = 0.0
    for j in range(n):
        T[PRICE, j] = 0.0
    for t in range(m):
        s = b[t]
        for j in range(n):
            s -= A[t, j] * T[Y, j]
        r[t] = s
        square += s * s
        for j in range(n):
            T[PRICE, j] += s * A[t, j]
    for j in range(n):
        T[PRICE, j] /= T[LENGTH, j]
    return np.sqrt(square)


@kernel(error_model="numpy", counting=False)
def largest_eigenvalue(inverse, k):  # type: ignore[no-untyped-def]
    """A bound for that of a symmetric matrix: its Frobenius norm, or the largest sum of a row."""
    squares, largest = 0.0, 0.0
    for a in range(k):
        row = 0.0
        for e in range(k):
            row += abs(inverse[a, e])
            squares += inverse[a, e] * inverse[a, e]
        largest = max(largest, row)
    return min(largest, np.sqrt(squares))


@kernel(error_model="numpy", counting=False)
def cost_of_doubt(inverse, cross, h, v, table, m, worst):  # type: ignore[no-untyped-def]
    """What columns in doubt can take from half the squared residual, for a right-hand side of unit length; infinity if no u says.

    ``cross`` has the products of the passive columns, in their order, with all, and ``inverse`` belongs to those with each other. ``table``
    has room for three rows.
    """
    k, n = cross.shape
    q, y, p = table[0], table[1], table[2]
    for a in range(k):
        q[a] = 1.0
    for _ in range(TURNS):
        length = 0.0  # that u has at most
        for a in range(k):
            y[a] = dot(inverse[a, :k], q[:k])
            length += abs(y[a])
        for j in range(n):
            p[j] = 0.0
        for a in range(k):
            for j in range(n):
                p[j] += y[a] * cross[a, j]
        lowest = np.int64(-1)
        for j in range(n):
            if h[j] == 0.0 and v[j] > 0.0 and (lowest < 0 or p[j] < p[lowest]):
                lowest = np.int64(j)
        rounding, square, at = EPS * (8.0 + np.sqrt(m) + np.sqrt(k)) * length, 0.0, 0
        for j in range(n):
            if h[j] > 0.0:
                square += y[at] * p[j]
                at += 1
        ratio = judged(h, v, p, rounding, worst)
        if ratio < np.inf:
            return ratio * np.sqrt(square + rounding * length)
        size = 0.0
        for a in range(k):
            y[a] = dot(inverse[a, :k], cross[:k, lowest])
            size += y[a] * y[a]
        if not size > 0.0:
            return np.inf
        for a in range(k):
            q[a] = max(q[a] + y[a] / np.sqrt(size), SMALLEST)
    return np.inf


@kernel(error_model="numpy", counting=False)
def cost_with_ones(A, T, worst):  # type: ignore[no-untyped-def]
    """The same for the vector of ones."""
    m, n = A.shape
    for j in range(n):
        T[P, j] = 0.0
    for t in range(m):
        for j in range(n):
            T[P, j] += A[t, j]
    for j in range(n):
        T[P, j] /= T[LENGTH, j]
    length = np.sqrt(m)
    return judged(T[COEFFICIENT], T[PRICE], T[P], EPS * (4.0 + length) * length, worst) * length


@kernel(error_model="numpy", counting=False)
def judged(h, v, p, rounding, worst):  # type: ignore[no-untyped-def]
    r"""The :math:`\omega / \delta` of a vector with the products ``p``, or infinity if these do not show anything."""
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
