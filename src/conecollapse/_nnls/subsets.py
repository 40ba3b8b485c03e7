r"""Many right-hand sides and very few columns: all sets of passive columns at once, without a
compiled kernel.

Let the columns of A have unit length, :math:`G = A^T A` and :math:`c = A^T b`. A set S of columns
is that of a solution of ``min |A x - b|, x >= 0`` if :math:`x_S = G_{SS}^{-1} c_S` has no negative
entry, and the gradient :math:`c_N - G_{NS} x_S` of the other columns N no positive one. Both are
linear in c. So with n columns the entries of all :math:`2^n` pairs of ``x_S`` and of the negative
gradient are one matrix product, and the set whose smallest entry is largest is the one looked for.

The matrices of all sets come from *sweeps* (Goodnight 1979): a step of Gauss and Jordan's
elimination with the pivot p takes

.. math:: \begin{pmatrix} -G_{SS}^{-1} & G_{SS}^{-1} G_{SN} \\ G_{NS} G_{SS}^{-1} & G_{NN} - G_{NS}
   G_{SS}^{-1} G_{SN} \end{pmatrix}

from S to the set with p added. Before it, diagonal entry p is the squared part of column p outside
the span of S: sets with a dependent column are left out. Solutions are refined and measured with A
itself, and those not shown to be optimal (`proof`) are left to the caller.
"""

from __future__ import annotations

import numpy as np

from conecollapse._linalg import row_norms
from conecollapse._nnls.confirm import UNPROVEN
from conecollapse._nnls.kernels import OPTIMAL
from conecollapse._nnls.problem import Problem
from conecollapse._nnls.proof import BLUR, DEPENDENT, LEAST_LENGTH, MOST_LENGTH
from conecollapse._types import BoolArray, FloatArray

# for fewer right-hand sides SciPy may be quicker than so many calls of NumPy: they take half a
# millisecond
FEWEST_SIDES = 128
# entries of all sets for all right-hand sides: up to here compiling a kernel does not pay
MOST_ENTRIES = 2**16
MOST_SIDE_ENTRIES = 2**15  # entries of the right-hand sides themselves


def is_for_subsets(m: int, n: int, k: int) -> bool:
    """Whether a matrix of m rows and n columns with k right-hand sides is solved here."""
    return (
        k >= FEWEST_SIDES
        and n < MOST_ENTRIES.bit_length()
        and (n * k) << n <= MOST_ENTRIES
        and m * k <= MOST_SIDE_ENTRIES
    )


def solve_by_subsets(A: FloatArray, B: FloatArray) -> FloatArray:
    """``min |A x - b|, x >= 0`` for each column b of ``B``: an array with x, the residual norm and
    the ending in its columns."""
    (_, n), k = A.shape, B.shape[1]
    out = np.zeros((n + 2, k))
    out[n + 1] = UNPROVEN
    Bt = np.ascontiguousarray(B.T)
    with np.errstate(over="ignore", invalid="ignore"):
        G, sizes = A.T @ A, row_norms(Bt)
        norms = np.sqrt(np.diag(G))
        is_zero = norms == 0
        is_safe = (sizes > LEAST_LENGTH) & (sizes < MOST_LENGTH)
        if (
            not ((norms > LEAST_LENGTH) & (norms < MOST_LENGTH) | is_zero).all()
            or A[:, is_zero].any()
        ):
            return out
        inverse = 1 / np.where(is_zero, np.inf, norms)
        problem = Problem(A, norms, inverse, np.ones(n))
        maps, members, sigma = _all_sets(G * inverse * inverse[:, None])
        C = problem.correlations(Bt)
        smallest = (maps.reshape(-1, n) @ C.T).reshape(-1, n, k).min(axis=1)
        smallest[sigma == 0] = -np.inf
        best = smallest.argmax(axis=0)
        solve = maps[best] * members[best, :, None]
        H = np.einsum("kij,kj->ki", solve, C)
        residual = Bt - (H * inverse) @ A.T
        H = np.maximum(H + np.einsum("kij,kj->ki", solve, problem.correlations(residual)), 0.0)
        measured = problem.measure(Bt, H, sigma[best])
    out[:n], out[n] = (H * inverse).T, measured.rnorm
    out[n + 1, is_safe & measured.optimal | ~Bt.any(axis=1)] = OPTIMAL
    return out


def _all_sets(G: FloatArray) -> tuple[FloatArray, BoolArray, FloatArray]:
    """For each set of columns the matrix that takes c to ``x_S`` and to the negative gradient of
    the others, its members, and a lower bound for their smallest singular value, zero where they
    are dependent. Set number s has column j if bit j of s is one.
    """
    n = len(G)
    T, is_valid = G[None], np.ones(1, bool)
    for p in range(n):
        pivot, swept_by = T[:, p, p], (np.arange(2**p)[:, None] >> np.arange(p)) % 2 == 1
        trace = -np.where(swept_by, np.einsum("sjj->sj", T)[:, :p], 0.0).sum(axis=1)
        is_free = pivot > np.maximum(DEPENDENT, BLUR * trace)
        f = 1 / np.where(is_free, pivot, 1.0)
        column = T[:, :, p]
        swept = T - (column * f[:, None])[:, :, None] * column[:, None, :]
        swept[:, p] = swept[:, :, p] = column * f[:, None]
        swept[:, p, p] = -f
        T, is_valid = np.concatenate([T, swept]), np.concatenate([is_valid, is_valid & is_free])
    members = (np.arange(2**n)[:, None] >> np.arange(n)) % 2 == 1
    every = np.arange(n)
    # at least the inverse of the smallest eigenvalue of G_SS
    trace = -np.where(members, T[:, every, every], 0.0).sum(axis=1)
    sigma = np.where(is_valid, 1 / np.sqrt(np.maximum(trace, np.finfo(np.float64).tiny)), 0.0)
    maps = np.where(members[:, :, None], -T, T) * members[:, None, :]
    maps[:, every, every] -= ~members
    return maps, members, sigma
