"""The checker for points in very many dimensions, which are seen a block of coordinates at a time.

The points are the columns of a table ``X`` that comes in blocks of rows. All that `checker` proves
are sums over coordinates: squared residuals, squared lengths of the witnesses
``g = sum_j W_j u_j``, and their products with the points. So two passes over the blocks prove the
same claims about the same points, in memory that does not depend on the dimension.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import scipy.sparse as sp

from conecollapse._errors import CertificateError
from conecollapse._types import AnyArray, FloatArray
from conecollapse.certificates import form
from conecollapse.certificates.checker import (
    check_finite,
    check_structure,
    coverage,
    far_off,
    judge,
    separate,
    smallest_of,
    verdict,
)
from conecollapse.certificates.claims import Certificate, Verdict, plain
from conecollapse.certificates.witnesses import EPS, Combination, Values, unit_peak

Blocks = Callable[[], Iterable[AnyArray]]  # called once for each pass


def check_blocks(blocks: Blocks, rays: Any, certificate: Any, tol: float | None = None) -> Verdict:
    """Prove every claim about the columns of the table that ``blocks()`` yields in blocks of rows,
    or raise `CertificateError`.

    As `conecollapse.certificates.check`, for a certificate whose witnesses are combinations of the
    points.
    """
    c = plain(certificate)
    if not isinstance(c, Certificate) or not all(
        isinstance(family, Combination) for family in c.witnesses
    ):
        raise CertificateError(
            "this certificate was not made from blocks of coordinates; verify it against the whole"
            " points."
        )
    tol = c.tol if tol is None else tol
    rays = None if rays is None else form.floats("unit_rays", rays, (len(c.rays), c.dim))
    # what overflows becomes infinite or no number, and is refused as such
    with np.errstate(all="ignore"):
        scale, lengths, longest, count = _column_lengths(blocks, c)
        check_structure(c, lengths)
        sums = _Sums(c, rays)
        for block in blocks():
            sums.add(np.asarray(block, np.float64) / scale / np.where(lengths > 0, lengths, 1.0))
        if sums.seen != c.dim:
            raise CertificateError(
                f"the blocks had {c.dim} rows in the first pass and {sums.seen} in the second; both"
                " must be the whole table."
            )
        # a sum of n terms in blocks of b errs by at most b + n / b roundoffs
        return sums.verdict((longest + count + 4) * EPS, tol)


def _column_lengths(blocks: Blocks, c: Certificate) -> tuple[FloatArray, FloatArray, int, int]:
    """A scale for each column, its length in units of that scale, rows of the longest block, and
    the number of blocks.

    Squares are in units of the largest entry of the column so far, so that none is lost however
    faint the column is.
    """
    peak, squares, rows, longest, count = np.zeros(c.n_points), np.zeros(c.n_points), 0, 0, 0
    for block in blocks():
        if block.shape[1] != c.n_points:
            raise CertificateError(
                f"the certificate is about {c.n_points} points, but a block has {block.shape[1]}"
                " columns."
            )
        high = np.maximum(np.abs(block).max(axis=0, initial=0.0).astype(np.float64), peak)
        check_finite(high)
        scale = np.where(high > 0, high, 1.0)
        squares = squares * (peak / scale) ** 2 + np.square(
            np.asarray(block, np.float64) / scale
        ).sum(axis=0)
        peak, rows, longest, count = (
            high,
            rows + block.shape[0],
            max(longest, block.shape[0]),
            count + 1,
        )
    if rows != c.dim:
        raise CertificateError(
            f"the certificate is about points in dimension {c.dim}, but the blocks have {rows}"
            " rows."
        )
    return np.where(peak > 0, peak, 1.0), np.sqrt(squares), longest, count


class _Sums:
    """What is summed over the blocks of unit columns."""

    def __init__(self, c: Certificate, rays: FloatArray | None) -> None:
        self.c, self.rays = c, rays
        self.members, self.represented, self.followers = coverage(c)
        self.to_leader, self.to_rays = np.zeros(len(self.members)), np.zeros(len(self.represented))
        self.through_leader = np.zeros(len(self.followers))
        self.off = np.zeros(len(c.rays))
        self.of = np.concatenate([np.zeros(0, np.int64), *(family.of for family in c.witnesses)])
        weights = [family.W for family in c.witnesses if isinstance(family, Combination)]
        self.W = unit_peak(np.concatenate([np.zeros((0, c.n_points)), *weights]))
        self.products, self.squares = np.zeros((len(self.of), c.n_points)), np.zeros(len(self.of))
        self.seen = 0

    def add(self, U: FloatArray) -> None:
        c = self.c
        rays = U[:, c.rays].T
        self.to_leader += np.square(U[:, self.members] - U[:, c.leader[self.members]]).sum(axis=0)
        self.to_rays += np.square(
            U[:, self.represented] - self._combined(self.represented, rays)
        ).sum(axis=0)
        self.through_leader += np.square(
            U[:, self.followers] - self._combined(c.leader[self.followers], rays)
        ).sum(axis=0)
        if self.rays is not None and self.seen + len(U) <= c.dim:
            self.off += np.square(rays - self.rays[:, self.seen : self.seen + len(U)]).sum(axis=1)
        G = U @ self.W.T
        self.squares += np.square(G).sum(axis=0)
        self.products += G.T @ U
        self.seen += len(U)

    def _combined(self, points: Any, rays: FloatArray) -> FloatArray:
        return np.asarray((sp.csr_array(self.c.coefficients[points]) @ rays).T)

    def verdict(self, rounding: float, tol: float) -> Verdict:
        c = self.c
        far_off(np.sqrt(self.off), c.rays)
        worst = max(
            judge(np.sqrt(self.to_leader), self.members, c, tol, "its group's leader"),
            judge(np.sqrt(self.to_rays), self.represented, c, tol, "its combination of rays"),
            float(np.sqrt(self.through_leader).max(initial=0.0)),
        )
        lengths, everyone, smallest = np.sqrt(self.squares), np.arange(c.n_points), np.inf
        leaders = np.flatnonzero(c.leader == everyone)
        for rays_only, others in ((False, leaders), (True, c.rays)):
            which = np.flatnonzero(c.rays_only[self.of] == rays_only)
            if len(which):
                values = Values(
                    which, self.products[which], lengths[which], rounding * lengths[which]
                )
                distance = separate(
                    values, self.of[which], everyone, np.isin(everyone, others), c, tol
                )
                smallest = min(smallest, smallest_of(distance, self.of[which], c))
        return verdict(c, tol, worst, smallest)
