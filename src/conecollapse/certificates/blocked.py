"""The checker for points in very many dimensions, which are seen a block of coordinates at a time.

The points are the columns of a table ``X`` that comes in blocks of rows. All that `checker` proves are sums over coordinates: squared
residuals, squared lengths of the witnesses ``g = sum_j W_j u_j``, and their products with the points. So two passes over the blocks prove
the same claims about the same points, in memory that does not depend on the dimension.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import scipy.sparse as sp

from conecollapse._errors import CertificateError
from conecollapse._types import AnyArray, FloatArray, IntArray
from conecollapse.certificates.checker import DIGITS, EPS, _check_structure, _clear, _positive
from conecollapse.certificates.claims import COMBINED, Certificate, Verdict
from conecollapse.certificates.form import check_form

Blocks = Callable[[], Iterable[AnyArray]]  # called once for each pass


def check_blocks(blocks: Blocks, c: Certificate) -> Verdict:
    """Prove every claim of ``c`` about the columns of the table that ``blocks()`` yields in blocks of rows, or raise `CertificateError`."""
    check_form(c)
    if (c.kind != COMBINED).any():
        raise CertificateError("this certificate was not made from blocks of coordinates; verify it against the whole points.")
    norms, longest, count = _column_norms(blocks, c)
    _check_structure(c, norms)
    scale = np.where(norms > 0, norms, 1.0)
    is_ray = np.zeros(c.n_points, bool)
    is_ray[c.rays] = True
    leaders = c.leader == np.arange(c.n_points)
    members, others = np.flatnonzero((c.leader >= 0) & ~leaders), np.flatnonzero(leaders & ~is_ray)
    for i in others[np.diff(c.coefficients.indptr)[others] == 0][:1]:
        raise CertificateError(f"point {i}: it is neither a ray nor represented by rays.")
    H = sp.csr_array(c.coefficients[others])
    W = c.W / np.where(np.abs(c.W).max(axis=1) > 0, np.abs(c.W).max(axis=1), 1.0)[:, None]
    apart, left = np.zeros(len(members)), np.zeros(len(others))
    values, squares = np.zeros((len(c.rays), c.n_points)), np.zeros(len(c.rays))
    for block in blocks():
        U = np.asarray(block, np.float64) / scale
        apart += np.square(U[:, members] - U[:, c.leader[members]]).sum(axis=0)
        left += np.square(U[:, others] - (H @ U[:, c.rays].T).T).sum(axis=0)
        G = U @ W.T
        squares += np.square(G).sum(axis=0)
        values += G.T @ U
    # a sum of n terms in blocks of b errs by at most b + n / b roundoffs
    error = (longest + count + 4) * EPS * np.sqrt(squares)
    worst = max(_within(np.sqrt(apart), members, c, "its group's leader"), _within(np.sqrt(left), others, c, "its combination of rays"))
    return Verdict(len(c.rays), _check_values(values, np.sqrt(squares), error, np.flatnonzero(leaders), c), worst)


def _column_norms(blocks: Blocks, c: Certificate) -> tuple[FloatArray, int, int]:
    """Lengths of the columns, rows of the longest block, and the number of blocks."""
    peak, squares, rows, longest, count = 0.0, np.zeros(c.n_points), 0, 0, 0
    for block in blocks():
        if block.shape[1] != c.n_points:
            raise CertificateError(f"the certificate is about {c.n_points} points, but a block has {block.shape[1]} columns.")
        high = max(float(np.abs(block).max(initial=0.0)), peak)  # squares are in units of the largest entry so far, so that none is lost
        scale = high if high > 0 else 1.0
        squares = squares * (peak / scale) ** 2 + np.square(np.asarray(block, np.float64) / scale).sum(axis=0)
        peak, rows, longest, count = high, rows + block.shape[0], max(longest, block.shape[0]), count + 1
    if rows != c.dim:
        raise CertificateError(f"the certificate is about points in dimension {c.dim}, but the blocks have {rows} rows.")
    return np.sqrt(squares) * peak, longest, count


def _within(distance: FloatArray, points: IntArray, c: Certificate, what: str) -> float:
    for a in np.flatnonzero(~(distance <= max(c.tol, c.reach) * (1 + DIGITS)))[:1]:
        raise CertificateError(f"point {points[a]}: it is {distance[a]:.3g} away from {what}, more than tol = {c.tol:.3g}.")
    return float(distance.max(initial=0.0))


def _check_values(values: FloatArray, norms: FloatArray, error: FloatArray, leaders: IntArray, c: Certificate) -> float:
    """Every witness is below zero on the points that it must be, and proves a distance above tol on its own."""
    here = np.arange(len(c.rays))
    own = values[here, c.separated]
    concerns = np.zeros(values.shape, bool)
    concerns[np.ix_(~c.rays_only, leaders)] = True
    concerns[np.ix_(c.rays_only, c.rays)] = True
    concerns[here, c.rays] = False
    others = np.where(concerns, values, -np.inf)
    for k in np.flatnonzero(~(others.max(axis=1) + error <= 0))[:1]:
        raise _positive(c, int(k), float(others[k].max()), int(others[k].argmax()), float(error[k]))
    return _clear(c, here, (own - error) / np.where(norms > 0, norms, np.inf))
