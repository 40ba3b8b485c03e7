"""Sparse targets over the points whose supports lie inside theirs, where these are few enough to be
in one place."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from conecollapse._linalg import combination_rows, row_norms
from conecollapse._types import BoolArray, FloatArray, IntArray, Sparse
from conecollapse.certificates import SparseVectors, Support
from conecollapse.geometry.blockwise.decided import Combinations, Decided
from conecollapse.geometry.certified import Decisions, conclude, decide
from conecollapse.geometry.certified.lists import Lists
from conecollapse.geometry.certified.supports import _solve_from_small_to_large

CLOSE = 0.1  # share of tol up to which the residual of a combination is accepted


def solve_over_contained(
    U: Sparse, numbers: IntArray, first: int, is_left: BoolArray, tol: float, found: Decided
) -> tuple[IntArray, Sparse]:
    """The rows of ``U`` from ``first`` on that are rays among them, with their functionals;
    ``found`` gets the combinations of others.

    ``numbers`` are those of the points. The rows before ``first`` are contained points, and all but
    those that are ``is_left`` are known to be rays.
    """
    if U.shape[0] == 1:  # nothing is contained in it: its support is a witness
        return np.array([0]), U
    known = Decisions(~is_left, {}, ())
    small = _solve_from_small_to_large(Lists.of(U), np.flatnonzero(is_left), known, tol, None)
    is_ray = ~is_left
    is_ray[list(small.functional)] = True
    kept = np.array([i for i in range(first, len(numbers)) if i in small.functional], np.int64)
    combined = _combinations(U, first, small.combination)
    if len(kept) + len(combined) == len(numbers) - first and all(
        off <= CLOSE * tol and is_ray[S].all() for S, _, off in combined.values()
    ):
        F = combination_rows([small.functional[int(i)][:2] for i in kept], U.shape[1])
    else:  # all that the method for points in memory knows
        kept, F, combined = _proven(U, first, tol)
    if combined:
        parts = [(numbers[S], h) for S, h, _ in combined.values()]
        found.combinations.append(
            Combinations.of_parts(
                numbers[list(combined)], parts, [off for _, _, off in combined.values()]
            )
        )
    undecided = np.setdiff1d(
        np.arange(first, len(numbers)), np.concatenate([kept, np.array(list(combined), np.int64)])
    )
    found.doubtful = numbers[undecided].tolist()
    return kept, F


def _combinations(
    U: Sparse, first: int, combination: dict[int, tuple[IntArray, FloatArray]]
) -> dict[int, tuple[IntArray, FloatArray, float]]:
    """Those of the rows from ``first`` on, with their residuals."""
    rows = [i for i in range(first, U.shape[0]) if i in combination]
    H = combination_rows([combination[i] for i in rows], U.shape[0])
    residual = row_norms(sp.csr_array(U[np.array(rows, np.int64)] - H @ U)) if rows else np.zeros(0)
    return {i: (*combination[i], float(off)) for i, off in zip(rows, residual, strict=True)}


def _proven(
    U: Sparse, first: int, tol: float
) -> tuple[IntArray, Sparse, dict[int, tuple[IntArray, FloatArray, float]]]:
    """What is proven about the rows from ``first`` on: rays, their functionals on
    supports, and combinations of others."""
    proof = conclude(U, tol, decide(U, tol))
    kept, rows = [np.zeros(0, np.int64)], [sp.csr_array((0, U.shape[1]))]
    for family in proof.witnesses:
        points = proof.rays[family.of]
        mine = np.flatnonzero((points >= first) & ~proof.rays_only[family.of])
        if isinstance(family, Support | SparseVectors):  # of sparse vectors only what is positive
            kept.append(points[mine])
            rows.append(
                sp.csr_array(
                    family.F[mine] if isinstance(family, Support) else family.G[mine].maximum(0.0)
                )
            )
    return (
        np.concatenate(kept),
        sp.csr_array(sp.vstack(rows)),
        _combinations(U, first, proof.combination),
    )
