r"""The active set on products: the Cholesky factor of the passive Gram matrix, grown and shrunk
column by column.

Of ``min |A x - b|, x >= 0`` an active set needs only :math:`G = A^T A` and :math:`c = A^T b`. For
the passive columns S it keeps the lower triangle L with :math:`L L^T = G_{SS} + ridge\, I`, and q
with :math:`L q = c_S`. Their least-squares coefficients solve :math:`L^T h = q`. A column enters as
a new row of L. It leaves with its row; Givens rotations of the columns make L triangular again.

`conecollapse._nnls.kernels` has the same for A itself.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from conecollapse._kernels import FAST, kernel
from conecollapse._types import FloatArray, IntArray

# a column whose squared part outside the passive ones is smaller adds nothing that G can resolve
DEPENDENT = 1e-12


class Passive(NamedTuple):
    """The active set of one right-hand side; with k passive columns, the first k entries of each
    field count."""

    S: IntArray  # (capacity,): the passive columns, in the order of the factor
    h: FloatArray  # their coefficients
    q: FloatArray
    L: FloatArray  # (capacity, capacity): the lower triangle
    ls: FloatArray  # scratch: the least-squares coefficients of the passive columns
    turn: FloatArray  # (2, capacity): scratch, for rotations

    @classmethod
    def of(cls, capacity: int) -> Passive:
        """Made outside the kernels, because an array that a kernel makes takes long to compile."""
        h, q, ls = np.empty((3, capacity))
        return cls(
            np.empty(capacity, np.int64),
            h,
            q,
            np.empty((capacity, capacity)),
            ls,
            np.empty((2, capacity)),
        )


@kernel(error_model="numpy", fastmath=FAST, counting=False)
def append(G, c, ridge, j, state, k):  # type: ignore[no-untyped-def]
    """Put column ``j`` last among the passive ones; False if it depends on them. It brings descent
    if ``state.q[k]`` is positive."""
    S, q, L = state.S, state.q, state.L
    row = L[k]
    left, along = G[j, j] + ridge, c[j]
    for a in range(k):
        above = L[a]
        w = G[S[a], j]
        for b in range(a):
            w -= above[b] * row[b]
        w /= above[a]
        row[a] = w
        left -= w * w
        along -= w * q[a]
    if left <= DEPENDENT * G[j, j]:
        return False
    row[k] = np.sqrt(left)
    q[k] = along / row[k]
    S[k] = j
    state.h[k] = 0.0
    return True


@kernel(error_model="numpy", fastmath=FAST, counting=False)
def solve(L, q, k, v):  # type: ignore[no-untyped-def]
    """``L' v = q`` in the first ``k`` entries."""
    for a in range(k):
        v[a] = q[a]
    for a in range(k - 1, -1, -1):
        row = L[a]
        x = v[a] / row[a]
        v[a] = x
        for b in range(a):
            v[b] -= x * row[b]


@kernel(error_model="numpy", fastmath=FAST, counting=False)
def remove(state, k, t):  # type: ignore[no-untyped-def]
    """Delete passive column ``t`` of ``k``: each later row moves up, turned by the rotations of the
    rows before it and by one more."""
    S, h, q, L, cosine, sine = state.S, state.h, state.q, state.L, state.turn[0], state.turn[1]
    for a in range(t + 1, k):
        row, new = L[a], L[a - 1]
        for b in range(t):
            new[b] = row[b]
        carried = row[t]
        for b in range(t, a - 1):
            c, s, u = cosine[b], sine[b], row[b + 1]
            new[b] = c * carried + s * u
            carried = c * u - s * carried
        u = row[a]
        length = np.sqrt(carried * carried + u * u)
        c, s = carried / length, u / length
        new[a - 1], cosine[a - 1], sine[a - 1] = length, c, s
        u = q[a - 1]
        q[a - 1], q[a] = c * u + s * q[a], c * q[a] - s * u
        S[a - 1], h[a - 1] = S[a], h[a]


@kernel(error_model="numpy", counting=False)
def walk(h, ls, k):  # type: ignore[no-untyped-def]
    """Walk from the first ``k`` coefficients ``h`` towards ``ls`` as far as all stay non-negative;
    whether they arrive there."""
    alpha, first = 1.0, -1
    for a in range(k):
        here, there = h[a], ls[a]
        if there <= 0.0:
            step = here / (here - there) if here > there else 0.0
            if first < 0 or step < alpha:
                alpha, first = step, a
    if first < 0:
        for a in range(k):
            h[a] = ls[a]
        return True
    for a in range(k):
        h[a] += alpha * (ls[a] - h[a])
    h[first] = 0.0
    return False


@kernel(error_model="numpy", counting=False)
def restore(state, k):  # type: ignore[no-untyped-def]
    """Lawson and Hanson's inner loop: walk from ``h`` to the least-squares coefficients, dropping
    columns that reach zero."""
    h, ls = state.h, state.ls
    while k > 0:
        solve(state.L, state.q, k, ls)
        if walk(h, ls, k):
            break
        for a in range(k - 1, -1, -1):
            if h[a] <= 0.0 and ls[a] <= 0.0:
                remove(state, k, a)
                k -= 1
    return k
