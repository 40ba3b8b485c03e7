"""A cheap witness for dense points: point i is a ray when no other point goes as far in the
direction of ``z_i``.

In high dimension this settles nearly every point. One float32 product of the points with their
transpose tells; it is symmetric, so only the upper half of its blocks is formed. A point is
accepted only when its lead exceeds a rigorous bound on the rounding error. All these witnesses are
one small family: ``T z_i`` minus an offset, with the matrix T of the round coordinates (`frame`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from conecollapse._linalg import CACHED
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
    own, stretched = _squares(frame)
    norms = np.sqrt(own)
    if share is None:
        largest, error = largest_products(frame.rows, norms, progress)
    else:
        largest, error = largest_products_of(frame.rows, norms, share, progress)
    own, stretched = own[rows], stretched[rows]
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


def _squares(frame: Frame) -> tuple[FloatArray, FloatArray]:
    """``|z|^2`` and ``|T z|^2`` of each point: the columns of T are orthogonal with lengths
    ``scale``."""
    m, n = len(frame.rows), len(frame.centre)
    own, stretched = np.empty(m), np.empty(m)

    def work(start: int, stop: int) -> None:
        for a in range(start, stop, TILE_ROWS):
            rows = slice(a, min(a + TILE_ROWS, stop))
            squares = frame.Z[rows] ** 2
            own[rows] = squares.sum(axis=1)
            stretched[rows] = squares @ frame.scale**2

    for_ranges(work, m, smallest=max(TILE_ROWS, CACHED // n))
    return own, stretched


def largest_products(
    Zf: AnyArray,
    norms: FloatArray,
    progress: Progress = None,
    tile: tuple[int, int] = (TILE_ROWS, TILE_COLUMNS),
) -> tuple[FloatArray, FloatArray]:
    """For each i an upper bound on ``max_{j != i} z_i . z_j``, and the bound on the error contained
    in it.

    ``Zf`` are the points, in float32 or float64, ``norms`` their lengths.
    """
    m = len(Zf)

    def add_stripe(rows: slice, largest: AnyArray, room: AnyArray) -> None:
        for column in range(rows.start, m, tile[1]):
            columns = slice(column, min(column + tile[1], m))
            block = _multiply(Zf[rows], Zf[columns], room)
            if column == rows.start:
                np.fill_diagonal(block, -np.inf)
            np.maximum(largest[columns], block.max(0), out=largest[columns])
            # else the block is symmetric
            if columns.start != rows.start or columns.stop > rows.stop:
                np.maximum(largest[rows], block.max(1), out=largest[rows])

    largest, error = _by_stripes(add_stripe, m, Zf, norms, progress, tile)
    return largest + error, error


def largest_products_of(
    Zf: AnyArray,
    norms: FloatArray,
    share: IntArray,
    progress: Progress = None,
    tile: tuple[int, int] = (TILE_ROWS, TILE_COLUMNS),
) -> tuple[FloatArray, FloatArray]:
    """`largest_products` for the points of a ``share`` only."""

    def add_stripe(rows: slice, largest: AnyArray, room: AnyArray) -> None:
        some = share[rows]
        for column in range(0, len(Zf), tile[1]):
            columns = slice(column, min(column + tile[1], len(Zf)))
            block = _multiply(Zf[some], Zf[columns], room)
            here = np.flatnonzero((some >= columns.start) & (some < columns.stop))
            block[here, some[here] - column] = -np.inf
            np.maximum(largest[rows], block.max(1), out=largest[rows])

    largest, error = _by_stripes(add_stripe, len(share), Zf, norms, progress, tile)
    return largest + error[share], error[share]


def _multiply(A: AnyArray, B: AnyArray, room: AnyArray) -> AnyArray:
    return np.matmul(A, B.T, out=room[: len(A) * len(B)].reshape(len(A), len(B)))


def _by_stripes(
    add_stripe: Callable[[slice, AnyArray, AnyArray], None],
    n_rows: int,
    Zf: AnyArray,
    norms: FloatArray,
    progress: Progress,
    tile: tuple[int, int],
) -> tuple[FloatArray, FloatArray]:
    """The largest values that ``add_stripe`` finds, stripe by stripe in threads, and the
    bound on the error of each point.

    A dot product of d terms errs by at most d roundoffs of |z_i| |z_j|, in any order of summation
    (Jeannerod & Rump 2013); rounding both factors first adds two, and two more cover
    products of these errors.
    """
    stripes = [slice(row, min(row + tile[0], n_rows)) for row in range(0, n_rows, tile[0])]
    partial: list[AnyArray] = []
    finished: list[slice] = []

    def work(start: int, stop: int) -> None:
        largest = np.full(n_rows, -np.inf, Zf.dtype)
        room = np.empty(tile[0] * min(tile[1], len(Zf)), Zf.dtype)
        for rows in stripes[start:stop]:
            add_stripe(rows, largest, room)
            finished.append(rows)
            if progress is not None:
                progress("products", len(finished), len(stripes))
        partial.append(largest)

    with serial_blas():
        for_ranges(work, len(stripes), smallest=-(-LEAST_WORK // (tile[0] * Zf.size)))
    roundoff = float(np.finfo(Zf.dtype).eps) / 2
    error = (Zf.shape[1] + 4) * roundoff * norms * norms.max(initial=0.0)
    return np.max(partial, axis=0).astype(np.float64), error
