"""Non-negative least squares of small rational problems in exact arithmetic.

Lawson and Hanson's active set on fractions. Without rounding it ends, and its passive columns stay
independent: a column that enters has a positive product with the residual, to which the passive
ones are orthogonal. The optimality conditions are checked, exactly, before the answer is returned.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np


def exact_nnls(A, b):
    """``(x, squared residual)`` of ``min |A x - b|, x >= 0`` as fractions; floats in ``A`` and
    ``b`` count as exact."""
    columns = [[Fraction(value) for value in column] for column in np.asarray(A).T.tolist()]
    b = [Fraction(value) for value in np.asarray(b).tolist()]
    n = len(columns)
    gram = [[dot(p, q) for q in columns] for p in columns]
    Atb = [dot(p, b) for p in columns]
    x, passive = [Fraction(0)] * n, []
    while True:
        gradient = [Atb[j] - sum(gram[j][k] * x[k] for k in passive) for j in range(n)]
        entering = next((j for j in range(n) if gradient[j] > 0 and j not in passive), None)
        if entering is None:
            break
        passive.append(entering)
        while True:
            z = solve([[gram[j][k] for k in passive] for j in passive], [Atb[j] for j in passive])
            if min(z) > 0:
                break
            step = min(
                x[j] / (x[j] - value) for j, value in zip(passive, z, strict=True) if value <= 0
            )
            for j, value in zip(passive, z, strict=True):
                x[j] += step * (value - x[j])
            passive = [j for j in passive if x[j] > 0]
        x = [z[passive.index(j)] if j in passive else Fraction(0) for j in range(n)]
    assert min(x) >= 0
    assert max(gradient) <= 0
    assert all(g == 0 for g, value in zip(gradient, x, strict=True) if value > 0)
    return x, dot(b, b) - dot(x, Atb)  # |b - Ax|^2 = b.(b - Ax), because x.A'(b - Ax) = 0


def dot(p, q):
    return sum((a * b for a, b in zip(p, q, strict=True)), start=Fraction(0))


def solve(G, c):
    """Gauss without exchanges: G is a positive definite matrix."""
    rows = [[*row, value] for row, value in zip(G, c, strict=True)]
    n = len(rows)
    for k in range(n):
        rows[k] = [value / rows[k][k] for value in rows[k]]
        for i in range(n):
            if i != k and rows[i][k]:
                factor = rows[i][k]
                rows[i] = [a - factor * b for a, b in zip(rows[i], rows[k], strict=True)]
    return [row[-1] for row in rows]
