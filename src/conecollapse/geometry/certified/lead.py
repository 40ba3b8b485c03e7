"""A cheap witness for dense points: point i is a ray when no other point goes as far in the
direction of ``z_i``.

In high dimension this settles nearly every point. One float32 product of the points with their
transpose tells; it is symmetric, so only the upper half of its blocks is formed. A point is
accepted only when its lead exceeds a rigorous bound on the rounding error. All these witnesses are
one small family: ``T z_i`` minus an offset, with the matrix T of the round coordinates (`frame`).
"""

from __future__ import annotations

import numpy as np

from conecollapse._linalg import row_norms
from conecollapse._threads import for_ranges, serial_blas
from conecollapse._types import AnyArray, FloatArray, IntArray, Progress
from conecollapse.certificates import Metric
from conecollapse.geometry.certified.frame import Frame
from conecollapse.geometry.certified.witness import CLEAR, EPS

# a float32 block of 2 MiB: it stays in cache between the product and its maxima
TILE_ROWS, TILE_COLUMNS = 256, 2048
# multiplications of a product, a quarter of a millisecond: less is not worth a thread
LEAST_WORK = 2**23


def led_by_themselves(
    frame: Frame, tol: float, share: IntArray | None = None, progress: Progress = None
) -> tuple[Metric, IntArray]:
    """The witnesses of those points among ``share``, or among all, that lead in their own
    direction, and the points that lead although this does not prove it well enough.

    The offset of ``T z_i`` is half-way between the point's own value and the next, or just above
    the next where that proves too little. Where rounding in ``T T' (q - centre)`` could matter at
    that scale a vector of its own has to.
    """
    rows = np.arange(len(frame.rows)) if share is None else share
    Z, n = frame.Z[rows], len(frame.centre)
    largest, error = largest_products(frame.rows, row_norms(frame.Z), share, progress)
    # |z|^2 and |T z|^2: the columns of T are orthogonal
    own = np.einsum("ij,ij->i", Z, Z)
    stretched = np.einsum("ij,ij,j->i", Z, Z, frame.scale**2)
    lead = own - largest
    rounding = 32 * EPS * (n + frame.scale.max() / frame.scale.min()) / frame.spread
    centred, total = Z @ (frame.T.T @ frame.centre), Z @ frame.T.sum(axis=0)

    def prove_from(shift: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Offsets ``shift`` above the next point's value, the lengths of the witnesses
        ``T z - offset``, and the distances proven."""
        offset = largest + shift + centred
        norm = np.sqrt(
            np.maximum(stretched - 2 * offset * total + n * offset**2, np.finfo(np.float64).tiny)
        )
        return offset, norm, (lead - shift) * frame.sums[rows] / norm

    offset, norm, distance = prove_from(lead / 2)
    leads, needed = lead > 2 * error, CLEAR * tol + rounding
    tight = 2 * rounding * norm / frame.sums.min()
    nearer, _, distance_from_nearer = prove_from(tight)
    use_tight = leads & (distance <= needed) & (tight < lead / 2)
    distance = np.where(use_tight, distance_from_nearer, distance)
    proven = leads & (distance > needed)
    offset = np.where(use_tight, nearer, offset)[proven]
    metric = Metric(rows[proven], frame.T.astype(np.float32), frame.centre, offset)
    return metric, rows[leads & ~proven]


def largest_products(
    Zf: AnyArray,
    norms: FloatArray,
    share: IntArray | None = None,
    progress: Progress = None,
    tile: tuple[int, int] = (TILE_ROWS, TILE_COLUMNS),
) -> tuple[FloatArray, FloatArray]:
    """For each i of a ``share``, or of all, an upper bound on ``max_{j != i} z_i . z_j``, and the
    bound on the error contained in it.

    ``Zf`` are the points, in float32 or float64, ``norms`` their lengths. The product is formed
    stripe by stripe in threads; that of all points is symmetric, and half of it is enough. A dot
    product of d terms errs by at most d roundoffs of |z_i| |z_j|, in any order of summation
    (Jeannerod & Rump 2013); rounding both factors first adds two, and two more cover products of
    these errors.
    """
    m, asked = len(Zf), np.arange(len(Zf)) if share is None else share
    stripes = [slice(row, min(row + tile[0], len(asked))) for row in range(0, len(asked), tile[0])]
    partial: list[AnyArray] = []
    finished: list[slice] = []

    def add_stripe(rows: slice, largest: AnyArray, room: AnyArray) -> None:
        some = asked[rows]
        mine = Zf[some]
        for column in range(rows.start if share is None else 0, m, tile[1]):
            columns = slice(column, min(column + tile[1], m))
            block = room[: len(some) * (columns.stop - column)].reshape(len(some), -1)
            np.matmul(mine, Zf[columns].T, out=block)
            here = np.flatnonzero((some >= column) & (some < columns.stop))
            block[here, some[here] - column] = -np.inf
            np.maximum(largest[rows], block.max(1), out=largest[rows])
            if share is None:
                np.maximum(largest[columns], block.max(0), out=largest[columns])

    def work(start: int, stop: int) -> None:
        largest = np.full(len(asked), -np.inf, Zf.dtype)
        room = np.empty(tile[0] * min(tile[1], m), Zf.dtype)
        for rows in stripes[start:stop]:
            add_stripe(rows, largest, room)
            finished.append(rows)
            if progress is not None:
                progress("products", len(finished), len(stripes))
        partial.append(largest)

    with serial_blas():
        for_ranges(work, len(stripes), smallest=-(-LEAST_WORK // (tile[0] * Zf.size)))
    roundoff = float(np.finfo(Zf.dtype).eps) / 2
    error = (Zf.shape[1] + 4) * roundoff * norms[asked] * norms.max(initial=0.0)
    return np.max(partial, axis=0) + error, error
