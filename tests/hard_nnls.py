"""NNLS problems of any condition, and their exact solution in whole numbers.

A float64 is a whole number times a power of two, so a problem can be stated in whole numbers
without rounding. There Lawson and Hanson's active set is finite for any rank: a column with a
positive gradient is never in the span of the passive ones.
"""

from __future__ import annotations

from fractions import Fraction
from math import isqrt

import numpy as np


def families():
    """Name and maker of (A, b) for each family of problems; a maker takes a random generator."""

    def scaled(shape, rows=0.0, columns=0.0, kind="normal"):
        def make(rng):
            A = rng.standard_normal(shape) if kind == "normal" else rng.random(shape)
            A *= 10.0 ** rng.uniform(-rows, rows, (shape[0], 1)) * 10.0 ** rng.uniform(
                -columns, columns, shape[1]
            )
            return A, right_hand_side(A, rng)

        return make

    def nearly_dependent(shape, rank):
        def make(rng):
            A = rng.standard_normal((shape[0], rank)) @ rng.standard_normal((rank, shape[1]))
            A += 10.0 ** rng.uniform(-16, -4) * rng.standard_normal(shape)
            return A, right_hand_side(A, rng)

        return make

    def dependent(rng):
        A = (rng.integers(-3, 4, (10, 3)) @ rng.integers(-3, 4, (3, 8))).astype(float)
        A *= 2.0 ** rng.integers(-20, 21, 8)
        return A, right_hand_side(A, rng)

    def vandermonde(rng):
        A = (
            np.vander(rng.uniform(-1, 1, 14), 11)
            if rng.random() < 0.5
            else np.vander(np.linspace(0, 1, 14), 11)
        )
        return A, right_hand_side(A, rng)

    def hilbert(rng):
        n = int(rng.integers(4, 13))
        A = 1.0 / (np.arange(n + 2)[:, None] + np.arange(n) + 1.0)
        A = A * rng.choice([-1.0, 1.0], n) if rng.random() < 0.5 else A
        return A, right_hand_side(A, rng)

    def chain(rows):
        """Each column undoes all but a small part of the one before, so that only all of them
        together reach the last direction."""

        def make(rng):
            n = int(rng.integers(2, 5))
            D, small = (
                rng.standard_normal((rows, n + 1)),
                10.0 ** -rng.uniform(2, 9 if n == 3 else 5, n),
            )
            A = np.column_stack(
                [D[:, 0], *(small[j] * D[:, j + 1] - D[:, j] for j in range(n - 1))]
            )
            b = (
                D[:, n - 1]
                + rng.choice([0.0, 1.0]) * D[:, 0]
                + 10.0 ** rng.uniform(-3, 0) * D[:, n]
            )
            return A, b

        return make

    return {
        "rows 1e-6..1e6, wide": scaled((8, 19), rows=6),
        "rows 1e-8..1e8, wide": scaled((8, 14), rows=8),
        "rows 1e-8..1e8, wide, no negatives": scaled((8, 19), rows=8, kind="uniform"),
        "rows 1e-8..1e8, tall": scaled((20, 7), rows=8),
        "columns 1e-8..1e8, tall": scaled((20, 7), columns=8),
        "columns 1e-8..1e8, wide": scaled((6, 15), columns=8),
        "rows and columns, square": scaled((10, 10), rows=6, columns=6),
        "rows and columns, wide": scaled((6, 14), rows=4, columns=8),
        "rows and columns, tall": scaled((25, 8), rows=6, columns=6),
        "dependent to 1e-16..1e-4, tall": nearly_dependent((12, 8), 4),
        "dependent to 1e-16..1e-4, wide": nearly_dependent((7, 12), 4),
        "exactly dependent": dependent,
        "Vandermonde": vandermonde,
        "Hilbert": hilbert,
        "chains of columns, few rows": chain(6),
        "chains of columns, tall": chain(64),
    }


def right_hand_side(A, rng):
    """Of normal numbers, or a combination of the columns (zero residual, but for rounding), or that
    with noise, or of the rows' sizes."""
    kind = rng.integers(4)
    inside = A @ np.where(
        rng.random(A.shape[1]) < 0.5,
        rng.random(A.shape[1]) / np.linalg.norm(A, axis=0).clip(1e-300),
        0.0,
    )
    noise = rng.standard_normal(len(A))
    if kind == 0:
        return noise
    if kind == 3:
        return noise * np.linalg.norm(A, axis=1)
    return inside + (kind == 2) * 10.0 ** rng.uniform(-12, 0) * np.linalg.norm(inside) * noise


def judge(A, b, x, x_scipy):
    """Exact residual norms of x and of SciPy's answer (None for no answer), the smallest possible
    one, and what rounding may add to that.

    The last is for the solution in whole numbers: rounding its entries to float64, and the sums of
    A times these.
    """
    theirs = np.inf if x_scipy is None else exact_residual(A, b, x_scipy)
    optimum, solution = exact_solution(A, b, x)
    return (
        exact_residual(A, b, x),
        theirs,
        optimum,
        np.finfo(float).eps * np.linalg.norm(np.abs(A) @ solution),
    )


def exact_residual(A, b, x):
    """``|b - A x|`` of float64 numbers, without rounding but for the last one."""
    A, b, x = _fractions(A), _fractions(b), _fractions(x)
    return _norm(
        [
            bi - sum(a * c for a, c in zip(row, x, strict=True) if c)
            for row, bi in zip(A, b, strict=True)
        ]
    )


def exact_optimum(A, b, start):
    """The smallest ``|b - A x|`` of all ``x >= 0``, from a guess at the passive columns."""
    return exact_solution(A, b, start)[0]


def exact_solution(A, b, start):
    """The smallest ``|b - A x|`` of all ``x >= 0``, from a guess at the passive columns, and an x
    that has it, rounded at the end."""
    M, unit = _whole(A)
    t, unit_b = _whole(b[:, None])
    columns, t = [[row[j] for row in M] for j in range(A.shape[1])], [row[0] for row in t]
    gram = [[sum(p * q for p, q in zip(u, v, strict=True)) for v in columns] for u in columns]
    c = [sum(p * q for p, q in zip(u, t, strict=True)) for u in columns]
    passive, x = _feasible(gram, c, [j for j in range(len(c)) if start[j] > 0], {})
    while True:
        y = [cj - sum(row[p] * x[p] for p in passive) for cj, row in zip(c, gram, strict=True)]
        # the highest gradient for the length of its column
        best = max(
            (j for j in range(len(c)) if y[j] > 0),
            key=lambda j: y[j] * y[j] / gram[j][j],
            default=None,
        )
        if best is None:
            break
        passive, x = _feasible(gram, c, [*passive, best], x)
    # |t|^2 - c'x, in units of unit_b
    norm = _root(Fraction(sum(v * v for v in t)) - sum(c[p] * x[p] for p in passive)) * unit_b
    return norm, np.array(
        [
            float(x[j] * Fraction(unit_b) / Fraction(unit)) if j in passive else 0.0
            for j in range(len(c))
        ]
    )


def _feasible(gram, c, passive, h):
    """Lawson and Hanson's inner loop from ``h``, with columns that depend on earlier ones left
    out."""
    while True:
        passive, z = _solve(gram, c, passive)
        out = [p for p in passive if z[p] <= 0]
        if not out:
            return passive, z
        alpha = min(
            h.get(p, 0) / (h.get(p, 0) - z[p]) if h.get(p, 0) > z[p] else Fraction(0) for p in out
        )
        h = {p: h.get(p, 0) + alpha * (z[p] - h.get(p, 0)) for p in passive}
        passive = [p for p in passive if not (h[p] <= 0 and z[p] <= 0)]


def _solve(gram, c, passive):
    """Least squares over the passive columns: those that are independent, and their
    coefficients."""
    rows = [[Fraction(gram[p][q]) for q in passive] + [Fraction(c[p])] for p in passive]
    kept = []
    for a in range(len(passive)):
        if rows[a][a] == 0:  # what elimination leaves of a column that depends on those before it
            continue
        kept.append(a)
        for e in range(len(passive)):
            if e != a and rows[e][a] != 0:
                f = rows[e][a] / rows[a][a]
                rows[e] = [u - f * v for u, v in zip(rows[e], rows[a], strict=True)]
    return [passive[a] for a in kept], {passive[a]: rows[a][-1] / rows[a][a] for a in kept}


def _whole(A):
    """Whole numbers and the power of two that turns them into A."""
    exponent = int(np.frexp(A[A != 0])[1].min(initial=0)) - 53
    return [
        [int(Fraction(float(v)) / Fraction(2) ** exponent) for v in row] for row in A
    ], 2.0**exponent


def _fractions(A):
    return (
        [[Fraction(float(v)) for v in row] for row in A]
        if A.ndim == 2
        else [Fraction(float(v)) for v in A]
    )


def _norm(r):
    return _root(sum(v * v for v in r))


def _root(square):
    """The square root of a fraction, to float64."""
    shift = max(0, 256 - (square.numerator.bit_length() - square.denominator.bit_length())) // 2 * 2
    return isqrt((square.numerator << shift) // square.denominator) / 2 ** (shift // 2)
