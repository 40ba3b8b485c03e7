"""Numbers of twice the precision: a value is the unevaluated sum of two float64, about 32 digits.

The sum and the product of two float64, and the rounding errors of both, are float64 again, and a
few operations find them (Dekker 1971; Knuth). A vector is an array of shape (2, m): the rounded
values, then their rounding errors.
"""

from __future__ import annotations

import numpy as np

from conecollapse._kernels import kernel

SPLITTER = 134217729.0  # 2^27 + 1 cuts the 53 bits of a float64 into two halves


@kernel(error_model="numpy")
def two_sum(a, b):  # type: ignore[no-untyped-def]
    """``a + b`` rounded, and the rounding error."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


@kernel(error_model="numpy")
def two_product(a, b):  # type: ignore[no-untyped-def]
    """``a b`` rounded, and the rounding error."""
    p = a * b
    t = SPLITTER * a
    a1 = t - (t - a)
    a2 = a - a1
    t = SPLITTER * b
    b1 = t - (t - b)
    b2 = b - b1
    return p, ((a1 * b1 - p) + a1 * b2 + a2 * b1) + a2 * b2


@kernel(error_model="numpy")
def add(a, da, b, db):  # type: ignore[no-untyped-def]
    s, e = two_sum(a, b)
    t, f = two_sum(da, db)
    e += t
    u = s + e
    e = (e - (u - s)) + f
    s = u + e
    return s, e - (s - u)


@kernel(error_model="numpy")
def multiply(a, da, b, db):  # type: ignore[no-untyped-def]
    p, e = two_product(a, b)
    e += a * db + da * b
    s = p + e
    return s, e - (s - p)


@kernel(error_model="numpy")
def divide(a, da, b, db):  # type: ignore[no-untyped-def]
    q = a / b
    p, dp = multiply(q, 0.0, b, db)
    r, dr = add(a, da, -p, -dp)
    q2 = r / b
    p, dp = multiply(q2, 0.0, b, db)
    r, dr = add(r, dr, -p, -dp)
    s, e = two_sum(q, q2)
    return add(s, e, r / b, 0.0)


@kernel(error_model="numpy")
def square_root(a, da):  # type: ignore[no-untyped-def]
    if a <= 0.0:
        return 0.0, 0.0
    s = np.sqrt(a)
    p, dp = two_product(s, s)
    r, _ = add(a, da, -p, -dp)
    return two_sum(s, r / (2.0 * s))


@kernel(error_model="numpy")
def dot(a, b):  # type: ignore[no-untyped-def]
    """Rounding errors are summed apart from the values (Ogita, Rump & Oishi 2005)."""
    s, e = 0.0, 0.0
    for t in range(a.shape[1]):
        p, dp = two_product(a[0, t], b[0, t])
        s, f = two_sum(s, p)
        e += f + (dp + (a[0, t] * b[1, t] + a[1, t] * b[0, t]))
    u = s + e
    return u, e - (u - s)


@kernel(error_model="numpy")
def rotate(c, dc, s, ds, a, da, b, db):  # type: ignore[no-untyped-def]
    """``c a + s b`` and ``c b - s a``."""
    p, dp = multiply(c, dc, a, da)
    q, dq = multiply(s, ds, b, db)
    u, du = add(p, dp, q, dq)
    p, dp = multiply(c, dc, b, db)
    q, dq = multiply(s, ds, a, da)
    v, dv = add(p, dp, -q, -dq)
    return u, du, v, dv


@kernel(error_model="numpy")
def axpy(c, dc, a, b):  # type: ignore[no-untyped-def]
    """``b += c a``."""
    for t in range(a.shape[1]):
        p, dp = multiply(c, dc, a[0, t], a[1, t])
        b[0, t], b[1, t] = add(b[0, t], b[1, t], p, dp)
