r"""Few points in very many dimensions: the same cone in as many dimensions as there are points.

The points are the columns of ``X (n_samples, m)`` with n much larger than m. With :math:`X = Q R`,
Q orthonormal, the columns of R have the inner products of those of X, so distances to cones are the
same: the cone of R *is* the cone of X, in :math:`R^m`. R comes from blocks of samples in one pass
(TSQR): the R of a stack of tables is the R of the stack of their Rs. Householder's QR errs by a few
roundoffs of each column's own length, however ill conditioned X is, so nothing is lost there (a
Gram matrix would lose half the digits).

Two things remain. *The slice*: the columns of R have entries of both signs, but their inner
products are still :math:`\ge 0`, so :math:`p = \sum_j u_j` has :math:`p \cdot u_i \ge 1`; a
reflection that takes p to the direction of ones lets the certified method run as it is. *The
proof*: a witness g' in :math:`R^m` must become one about X. As a combination of the points,
:math:`g = \sum_j w_j u_j`, it needs no Q and no vector of length n, and
`conecollapse.certificates.blocked` checks it against X itself. Here conditioning enters: rounding
in that sum grows with :math:`\|w\|`, up to the condition number of the unit points. What it would
spoil is shifted away along p at the price of a smaller proven distance; if that falls to ``tol``
for some ray, a larger ``tol`` is what can be certified, and a warning says which.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from conecollapse._errors import InvalidInputError
from conecollapse._linalg import row_norms, unit_rows
from conecollapse._types import AnyArray, BoolArray, Effort, FloatArray
from conecollapse.certificates import Certificate, Combination, vectors
from conecollapse.geometry.certified import COARSER, COARSEST, certify
from conecollapse.geometry.certified.witness import CLEAR, EPS

# rows of the longest block that a checker may read at once and still find the witnesses clear of
# its rounding
LONGEST_BLOCK = 2**17
# times roundoff times |w|: what rounding may do to `sum_j w_j u_j`; typical is 1, and the checker
# measures
ROUNDING = 8.0


def triangular(block: AnyArray) -> FloatArray:
    """The R of a block of samples: as many rows as columns at most."""
    return np.asarray(np.linalg.qr(np.asarray(block, np.float64), mode="r"))


def stacked(first: FloatArray, second: FloatArray) -> FloatArray:
    """The R of two tables, one above the other, from their Rs."""
    return triangular(np.vstack([first, second]))


def triangular_of(blocks: Iterable[AnyArray]) -> FloatArray:
    """The R of all blocks, one after the other, with each column in a unit of its own: memory for
    one block and one R.

    The unit of a column is that of its largest entry so far. So columns of any scale, beside
    columns of any other, keep all their digits.
    """
    R: FloatArray | None = None
    units: FloatArray = np.zeros(1)
    for block in blocks:
        larger = np.maximum(units, column_units(block.max(axis=0)))
        new, before = in_units(block, larger), in_units(units, larger)
        R, units = triangular(new) if R is None else stacked(R * before, new), larger
    if R is None:
        raise InvalidInputError("there are no blocks; at least one is needed.")
    return R


def column_units(peaks: AnyArray) -> FloatArray:
    """For each column the power of two at its largest entry, 0 for a column of zeros. Cones do not
    change when points are scaled."""
    peaks = np.asarray(peaks, np.float64)
    return np.asarray(np.where(peaks > 0, np.ldexp(1.0, np.frexp(peaks)[1] - 1), 0.0))


def in_units(block: AnyArray, units: FloatArray) -> FloatArray:
    """The block with its columns divided by these units, which rounds nothing."""
    return np.asarray(block, np.float64) / np.where(units > 0, units, 1.0)


def tall_certificate(
    R: FloatArray, n_samples: int, tol: float, effort: Effort = "exact"
) -> Certificate:
    """Certificate about the columns of X, from the R of its QR factorization.

    With ``effort="quick"`` rays whose witness rounding has spoiled are left open, like those that
    were not decided.
    """
    U, lengths = unit_rows(np.ascontiguousarray(R.T))
    if not lengths.any():
        raise InvalidInputError(
            f"all {len(lengths)} points are zero; a cone needs at least one point that is not."
        )
    U = _facing_ones(U)
    wanted = tol
    while True:
        found = certify(U, lengths, tol, effort=effort)
        tol = found.tol
        W, is_proven = _combined(U, found, n_samples)
        if effort == "quick":
            return _with_weights(found, n_samples, W, ~is_proven)
        if is_proven.all():
            break
        tol *= COARSER
        if tol > COARSEST:
            raise InvalidInputError(
                f"the points are too ill conditioned: ray {found.rays[~is_proven][0]} cannot be"
                " told from the others."
            )
    if tol > wanted:
        warnings.warn(
            f"the points are ill conditioned, so that rounding hides distances below {tol:.0e} once"
            f" the dimension is reduced; the cone is certified at tol = {tol:.0e} instead of"
            f" {wanted:.0e}.",
            stacklevel=4,
        )
    return _with_weights(found, n_samples, W, found.open)


def _with_weights(c: Certificate, n_samples: int, W: FloatArray, is_open: BoolArray) -> Certificate:
    """The certificate with the witnesses ``W`` in place of its own, but for the open rays."""
    proven = np.flatnonzero(~is_open)
    return replace(
        c,
        dim=n_samples,
        rays_only=c.rays_only & ~is_open,
        separated=np.where(is_open, c.rays, c.separated),
        witnesses=(Combination(proven, W[proven]),),
        open=is_open,
    )


def _facing_ones(U: FloatArray) -> FloatArray:
    """The unit rows reflected so that their sum points along ones."""
    d = U.shape[1]
    p = U.sum(axis=0)
    v = p / np.linalg.norm(p) - np.full(d, 1 / np.sqrt(d))
    size = float(v @ v)
    return U if size < EPS else U - np.outer(U @ v, (2 / size) * v)


def _combined(U: FloatArray, c: Certificate, n_samples: int) -> tuple[FloatArray, AnyArray]:
    """Weights of the points that make the witnesses of ``c``, 0 for open rays, and which of them
    prove their rays at ``c.tol``."""
    leaders = np.flatnonzero(c.leader == np.arange(c.n_points))
    L = U[leaders]
    P, s, Zt = np.linalg.svd(L, full_matrices=False)
    keep = s > max(L.shape) * EPS * s[0]
    G = vectors(c, U)
    w = (G @ Zt[keep].T / s[keep]) @ P[:, keep].T  # (c, leaders): the shortest weights that give G
    G = w @ L
    values = G @ L.T
    here = np.arange(len(c.rays))
    towards = L @ L.sum(axis=0)  # p . u_j >= 1
    margin = 2 * (min(n_samples, LONGEST_BLOCK) + 4) * EPS * row_norms(
        G
    ) + ROUNDING * EPS * row_norms(w)
    needed = (values + margin[:, None]) / towards
    needed[here, np.searchsorted(leaders, c.rays)] = -np.inf
    needed[np.ix_(c.rays_only, ~np.isin(leaders, c.rays))] = -np.inf
    t = np.maximum(needed.max(axis=1), 0.0)
    w -= t[:, None]
    G = w @ L
    own = np.einsum("ij,ij->i", G, U[c.separated])
    W = np.zeros((len(c.rays), c.n_points))
    W[:, leaders] = w
    return W, (own - margin) / np.maximum(row_norms(G), np.finfo(float).tiny) > CLEAR * c.tol
