r"""A few right-hand sides of a tall matrix with very few columns: one walk over A, and an active
set on a tableau of products.

Of ``min |A x - b|, x >= 0`` Lawson and Hanson's method needs only the products of the columns of A,
here of unit length, and of b:

.. math:: T = \begin{pmatrix} G & c \\ c^T & |b|^2 \end{pmatrix}, \qquad G = A^T A, \quad c = A^T b.

To *sweep* T by its diagonal entry p is a step of Gauss and Jordan's elimination that keeps it
symmetric (Goodnight 1979). Sweeping by the passive columns S, in any order, gives

.. math:: \begin{pmatrix} -G_{SS}^{-1} & G_{SS}^{-1} G_{SN} & x_S \\ & G_{NN} - G_{NS} G_{SS}^{-1}
   G_{SN} & c_N - G_{NS} x_S
          \\ & & |b - A x|^2 \end{pmatrix}

with the least-squares coefficients :math:`x_S` of the passive columns, the gradient of the others,
and on the diagonal the squared part of each of these outside the span of S, which says whether it
depends on them. A second sweep by p undoes the first, so a column enters and leaves by the same
step. The lower triangle is swept; the upper one keeps G and c, from which the gradient is computed
once more at the end.

If the residual is not near zero, these numbers show that x is optimal (`proof`). Otherwise the
residual and the gradient are computed with A itself, in one more walk, and x is corrected by them.
What is not shown to be optimal then is left to the caller.
"""

from __future__ import annotations

import numpy as np

from conecollapse._kernels import FAST, kernel
from conecollapse._nnls.confirm import LARGE_RESIDUAL, RESIDUAL_STOP, UNPROVEN
from conecollapse._nnls.doubt import set_aside
from conecollapse._nnls.kernels import OPTIMAL, STEP_LIMIT, dot
from conecollapse._nnls.proof import BLUR, DEPENDENT, EPS, SAFETY, is_exact_enough, is_shown
from conecollapse._types import FloatArray

# columns at most, rows for each of them at least, and rows at least
FEW, ROWS_FOR_EACH, FEWEST_ROWS = 12, 16, 64
LEAST_SQUARE, MOST_SQUARE = 1e-280, 1e280  # squares of lengths that are not lost
GRADIENT_ZERO = 1e-14  # gradients up to this share of |b| are rounding
SLAB = 64  # rows of A at a time
FOR_BLAS = 2**13  # entries of A times right-hand sides from which products are left to BLAS
# over A at most, after the first: for a residual near zero, and after one or two corrections
WALKS = 3

# rows of a table with a column for each column of A
PASSIVE, COEFFICIENT, LENGTH, WEIGHT, GRADIENT, SCRATCH, COUNT = range(7)


def is_tall_and_few(m: int, n: int) -> bool:
    """Whether matrices of this shape are solved here."""
    return n <= FEW and m >= ROWS_FOR_EACH * n and m >= FEWEST_ROWS


def solve_tall_and_few(A: FloatArray, Bt: FloatArray, max_steps: int) -> FloatArray:
    """``min |A x - b|, x >= 0`` for each row b of ``Bt``: an array with x, the residual norm and
    the ending in its columns."""
    n, products = A.shape[1], np.empty((0, 0))
    if A.size * len(Bt) >= FOR_BLAS:
        products = np.empty((n + len(Bt), n))
        with np.errstate(over="ignore", invalid="ignore"):
            np.matmul(A.T, A, out=products[:n])
            np.matmul(Bt, A, out=products[n:])
    found: FloatArray = _solve_each(A, Bt, products, max_steps)
    return found


@kernel(error_model="numpy")
def _solve_each(A, Bt, products, max_steps):  # type: ignore[no-untyped-def]
    """The same, with the products of the columns of A with each other and with each b, or without
    them."""
    n = A.shape[1]
    out, T, V = np.empty((n + 2, len(Bt))), np.empty((n + 1, n + 1)), np.empty((COUNT, n + 1))
    S, slab = np.empty(n, np.int64), np.empty((n + 1, SLAB))
    for i in range(len(Bt)):
        b = Bt[i]
        if len(products) == 0:
            multiply(A, b, T, slab)
        else:
            for j in range(n):
                for e in range(j + 1):
                    T[j, e] = products[j, e]
                T[n, j] = products[n + i, j]
            T[n, n] = dot(b, b)
        out[n + 1, i] = _solve(A, b, T, V, S, max_steps)
        for j in range(n + 1):
            out[j, i] = V[COEFFICIENT, j]
    return out


@kernel(error_model="numpy", fastmath=FAST, counting=False)
def multiply(A, b, T, slab):  # type: ignore[no-untyped-def]
    """Write the products of the columns of A and b to the lower triangle of ``T``, in one walk.

    A ``slab`` of some rows at a time has the columns as rows, whose products are sums without gaps.
    """
    m, n = A.shape
    for i in range(n + 1):
        for j in range(i + 1):
            T[i, j] = 0.0
    for start in range(0, m, SLAB):
        size = min(SLAB, m - start)
        for t in range(size):
            for i in range(n):
                slab[i, t] = A[start + t, i]
            slab[n, t] = b[start + t]
        for i in range(n + 1):
            for j in range(i + 1):
                s = 0.0
                for t in range(size):
                    s += slab[i, t] * slab[j, t]
                T[i, j] += s


@kernel(error_model="numpy", counting=False)
def _solve(A, b, T, V, S, max_steps):  # type: ignore[no-untyped-def]
    """Write the solution and its residual norm to the coefficients in ``V``, of one more column
    than A; how it ended.

    ``T`` has the products and becomes the tableau; ``S`` is for the numbers of passive columns.
    """
    m, n = A.shape
    for j in range(n + 1):
        V[COEFFICIENT, j] = 0.0
    for j in range(n + 1):
        if not LEAST_SQUARE < T[j, j] < MOST_SQUARE:
            for t in range(m):
                if j == n or A[t, j] != 0.0:
                    return UNPROVEN
            T[j, j] = np.inf  # so a column of zeros stays one, and has no price
        V[LENGTH, j] = np.sqrt(T[j, j])
        V[PASSIVE, j] = 0.0
    size = V[LENGTH, n]
    for i in range(n + 1):
        for j in range(i):
            T[i, j] /= V[LENGTH, j] if i == n else V[LENGTH, i] * V[LENGTH, j]
            T[j, i] = T[i, j]
        if i < n:
            T[i, i] = 1.0
    ending = descend(T, V, GRADIENT_ZERO * size, max_steps)
    square, walk = 0.0, 0
    while ending == OPTIMAL:
        square = by_products(T, V) if walk == 0 else by_matrix(A, b, V)
        k = list_passive(V, S)
        set_aside(A, S[:k], V[COEFFICIENT], V[GRADIENT], size)
        if (walk > 0 or square > LARGE_RESIDUAL * size * size) and is_least(
            T, V, square, float(m), walk > 0
        ):
            break
        walk += 1
        # errors of x add only their squares to such a residual
        if walk > WALKS or (walk > 1 and square > LARGE_RESIDUAL * size * size):
            ending = UNPROVEN
        elif walk > 1:
            correct(T, V)
    for j in range(n):
        V[COEFFICIENT, j] = V[COEFFICIENT, j] / V[LENGTH, j] if V[PASSIVE, j] > 0.0 else 0.0
    V[COEFFICIENT, n] = np.sqrt(square) if square > (RESIDUAL_STOP * size) ** 2 else 0.0
    return ending


@kernel(error_model="numpy", counting=False)
def descend(T, V, zero, max_steps):  # type: ignore[no-untyped-def]
    """Lawson and Hanson's descent from x = 0; how it ended. Gradients up to ``zero`` count as zero.

    A column that brings no descent has no weight until the residual is next smaller than ever
    before, so that no passive set returns between two such moments: the loop is finite.
    """
    n, steps, lowest = len(T) - 1, 0, np.inf
    while True:
        if T[n, n] < lowest:
            lowest = T[n, n]
            for j in range(n):
                V[WEIGHT, j] = V[LENGTH, j] * (1.0 - V[PASSIVE, j])
        at, best = n, 0.0
        for j in range(n):
            if T[n, j] > zero and T[n, j] * V[WEIGHT, j] > best:
                at, best = j, T[n, j] * V[WEIGHT, j]
        if at == n:
            return OPTIMAL
        V[WEIGHT, at] = 0.0
        trace = 0.0
        for j in range(n):
            if V[PASSIVE, j] > 0.0:
                trace -= T[j, j]
        if T[at, at] > max(DEPENDENT, BLUR * trace):
            if steps == max_steps:
                return STEP_LIMIT
            steps += 1
            V[PASSIVE, at] = 1.0
            V[COEFFICIENT, at] = 0.0
            sweep(T, at, V)
            restore(T, V)


@kernel(error_model="numpy", counting=False)
def restore(T, V):  # type: ignore[no-untyped-def]
    """Walk from the coefficients to the least-squares coefficients of the passive columns; those
    that reach zero on the way leave."""
    n = len(T) - 1
    while True:
        first, alpha = n, 1.0
        for j in range(n):
            if V[PASSIVE, j] > 0.0 and T[n, j] <= 0.0:
                step = (
                    V[COEFFICIENT, j] / (V[COEFFICIENT, j] - T[n, j])
                    if V[COEFFICIENT, j] > 0.0
                    else 0.0
                )
                if first == n or step < alpha:
                    first, alpha = j, step
        for j in range(n):
            V[COEFFICIENT, j] += alpha * (T[n, j] - V[COEFFICIENT, j])
        if first == n:
            return
        V[COEFFICIENT, first] = 0.0
        for j in range(n):
            if V[PASSIVE, j] > 0.0 and V[COEFFICIENT, j] <= 0.0 and T[n, j] <= 0.0:
                V[PASSIVE, j] = 0.0
                V[WEIGHT, j] = 0.0
                sweep(T, j, V)


@kernel(error_model="numpy", counting=False)
def sweep(T, p, V):  # type: ignore[no-untyped-def]
    """Sweep the lower triangle of ``T`` by its diagonal entry ``p``."""
    v, size = V[SCRATCH], len(T)
    f = 1.0 / T[p, p]
    for i in range(size):
        v[i] = T[p, i] if i < p else T[i, p]
    v[p] = 0.0
    for i in range(size):
        y = f * v[i]
        for j in range(i + 1):
            T[i, j] -= y * v[j]
    T[p, p] = -f
    f = abs(f)
    for i in range(size):
        if i < p:
            T[p, i] = f * v[i]
        elif i > p:
            T[i, p] = f * v[i]


@kernel(error_model="numpy", counting=False)
def list_passive(V, S):  # type: ignore[no-untyped-def]
    """Write the numbers of the passive columns to ``S``, and coefficients of zero for the others;
    how many are passive."""
    k = 0
    for j in range(len(S)):
        if V[PASSIVE, j] > 0.0:
            S[k] = j
            k += 1
        else:
            V[COEFFICIENT, j] = 0.0
    return k


@kernel(error_model="numpy", counting=False)
def by_products(T, V):  # type: ignore[no-untyped-def]
    """Write the gradient ``c - G x``; the squared residual norm, ``|b|^2 - x . (c + g)``."""
    n = len(T) - 1
    square = V[LENGTH, n] * V[LENGTH, n]
    for j in range(n):
        g = T[j, n]
        for i in range(n):
            if V[PASSIVE, i] > 0.0:
                g -= V[COEFFICIENT, i] * (T[i, j] if i < j else T[j, i] if i > j else 1.0)
        V[GRADIENT, j] = g
        if V[PASSIVE, j] > 0.0:
            square -= V[COEFFICIENT, j] * (T[j, n] + g)
    return square


@kernel(error_model="numpy", fastmath=FAST, counting=False)
def by_matrix(A, b, V):  # type: ignore[no-untyped-def]
    """The same with A itself, in one walk, four rows at a time."""
    m, n = A.shape
    square = 0.0
    for j in range(n):
        V[GRADIENT, j] = 0.0
        V[SCRATCH, j] = V[COEFFICIENT, j] / V[LENGTH, j] if V[PASSIVE, j] > 0.0 else 0.0
    for t in range(0, m - 3, 4):
        p, q, r, s = b[t], b[t + 1], b[t + 2], b[t + 3]
        for j in range(n):
            x = V[SCRATCH, j]
            p -= A[t, j] * x
            q -= A[t + 1, j] * x
            r -= A[t + 2, j] * x
            s -= A[t + 3, j] * x
        square += (p * p + q * q) + (r * r + s * s)
        for j in range(n):
            V[GRADIENT, j] += (p * A[t, j] + q * A[t + 1, j]) + (r * A[t + 2, j] + s * A[t + 3, j])
    for t in range(m // 4 * 4, m):
        r = b[t]
        for j in range(n):
            r -= A[t, j] * V[SCRATCH, j]
        square += r * r
        for j in range(n):
            V[GRADIENT, j] += r * A[t, j]
    for j in range(n):
        V[GRADIENT, j] /= V[LENGTH, j]
    return square


@kernel(error_model="numpy", counting=False)
def is_least(T, V, square, m, is_measured):  # type: ignore[no-untyped-def]
    """Whether a squared residual norm is shown to be the smallest one, as by `proof.least_residual`
    with the passive columns held.

    The trace of the inverse of their Gram matrix bounds that of its smallest eigenvalue. Gradients
    from products have errors relative to b, those that are measured with A relative to the
    residual.
    """
    n = len(T) - 1
    trace, total, count = 0.0, 0.0, 0.0
    for j in range(n):
        if V[PASSIVE, j] > 0.0:
            if not V[COEFFICIENT, j] > 0.0:
                return False
            trace -= T[j, j]
            total += V[COEFFICIENT, j]
            count += 1.0
    size, rnorm = V[LENGTH, n], np.sqrt(square)
    if not is_measured and not is_exact_enough(square, size, total):
        return False
    rounding = EPS * (4.0 + np.sqrt(count)) * (size + total)
    noise = rounding + EPS * (4.0 + np.sqrt(m)) * (rnorm if is_measured else size + total)
    wrong, worst = 0.0, -np.inf
    for j in range(n):
        if V[PASSIVE, j] > 0.0:
            wrong += (abs(V[GRADIENT, j]) + noise) ** 2
        elif V[GRADIENT, j] > worst:
            worst = V[GRADIENT, j]
    lean = SAFETY * np.sqrt(wrong * trace)
    least = (
        np.sqrt(square - lean * lean) - rounding
        if worst + noise + lean <= 0.0 and lean < rnorm
        else 0.0
    )
    return is_shown(least, rounding, size, rnorm)


@kernel(error_model="numpy", counting=False)
def correct(T, V):  # type: ignore[no-untyped-def]
    """Correct the coefficients of the passive columns by their gradient."""
    n = len(T) - 1
    for i in range(n):
        if V[PASSIVE, i] > 0.0:
            for j in range(n):
                if V[PASSIVE, j] > 0.0:
                    V[COEFFICIENT, i] -= (T[i, j] if i > j else T[j, i]) * V[GRADIENT, j]
