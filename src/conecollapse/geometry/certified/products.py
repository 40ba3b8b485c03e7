"""Proof by one product: point i is a vertex when no other point goes as far in the direction of
``z_i``.

In high dimension this settles nearly every point. The product is symmetric, so only the upper half
of its blocks is formed, in float32, and a point is accepted only when its lead exceeds a rigorous
bound on the rounding error.
"""

from __future__ import annotations

import numpy as np

from conecollapse._threads import for_ranges, serial_blas
from conecollapse._types import AnyArray, FloatArray, Progress
from conecollapse.geometry.certified.budget import Budget, again_time

# a float32 block of 2 MiB: it stays in cache between the product and its maxima
TILE_ROWS, TILE_COLUMNS = 256, 2048
DOUBLE_TILE = 256  # rows and columns of a float64 block
# multiplications of a float64 product, half a millisecond: less is not worth a thread
LEAST_WORK = 2**23
UNIT_ROUNDOFF_32, UNIT_ROUNDOFF_64 = 2.0**-24, 2.0**-53


def leading_products(
    Z: FloatArray, Zf: AnyArray, own: FloatArray, budget: Budget, progress: Progress = None
) -> tuple[FloatArray, FloatArray]:
    """As `largest_products`, and in float64 for the points whose lead over the others float32 does
    not resolve; ``own`` are the |z|^2.

    On a smooth surface these are all of them. As many are taken as the budget allows.
    """
    norms = np.sqrt(own)
    largest, error = largest_products(Zf, norms, progress)
    unresolved = np.flatnonzero(np.abs(own - (largest - error)) <= 2 * error)
    each = again_time(*Z.shape)
    unresolved = unresolved[: int(min(len(unresolved), max(budget.left, 0.0) / each))]
    if not len(unresolved):
        return largest, error
    budget.spend(each * len(unresolved))

    def work(start: int, stop: int) -> None:
        room = np.empty(DOUBLE_TILE**2)
        for a in range(start, stop, DOUBLE_TILE):
            rows = unresolved[a : min(a + DOUBLE_TILE, stop)]
            highest, Z_rows = np.full(len(rows), -np.inf), Z[rows]
            for column in range(0, len(Z), DOUBLE_TILE):
                others = Z[column : column + DOUBLE_TILE]
                block = np.matmul(
                    Z_rows, others.T, out=room[: len(rows) * len(others)].reshape(len(rows), -1)
                )
                here = np.flatnonzero((rows >= column) & (rows < column + DOUBLE_TILE))
                block[here, rows[here] - column] = -np.inf
                np.maximum(highest, block.max(axis=1), out=highest)
            error[rows] *= UNIT_ROUNDOFF_64 / UNIT_ROUNDOFF_32
            largest[rows] = highest + error[rows]

    with serial_blas():
        for_ranges(work, len(unresolved), smallest=max(DOUBLE_TILE, LEAST_WORK // Z.size))
    return largest, error


def largest_products(
    Zf: AnyArray, norms: FloatArray, progress: Progress = None
) -> tuple[FloatArray, FloatArray]:
    """For each i an upper bound on ``max_{j != i} z_i . z_j``, and the bound on the error contained
    in it.

    ``Zf`` are the points rounded to float32, ``norms`` their lengths.
    """
    m, d = Zf.shape
    stripes = [slice(row, min(row + TILE_ROWS, m)) for row in range(0, m, TILE_ROWS)]
    partial: list[AnyArray] = []
    finished: list[slice] = []

    def work(start: int, stop: int) -> None:
        largest, room = (
            np.full(m, -np.inf, np.float32),
            np.empty(TILE_ROWS * min(TILE_COLUMNS, m), np.float32),
        )
        for rows in stripes[start:stop]:
            for column in range(rows.start, m, TILE_COLUMNS):
                columns = slice(column, min(column + TILE_COLUMNS, m))
                shape = rows.stop - rows.start, columns.stop - column
                block = np.matmul(
                    Zf[rows], Zf[columns].T, out=room[: shape[0] * shape[1]].reshape(shape)
                )
                if column == rows.start:
                    np.fill_diagonal(block, -np.inf)
                np.maximum(largest[columns], block.max(0), out=largest[columns])
                # else the block is symmetric
                if columns.start != rows.start or columns.stop > rows.stop:
                    np.maximum(largest[rows], block.max(1), out=largest[rows])
            finished.append(rows)
            if progress is not None:
                progress("products", len(finished), len(stripes))
        partial.append(largest)

    with serial_blas():
        for_ranges(work, len(stripes), smallest=-(-LEAST_WORK // (TILE_ROWS * Zf.size)))
    largest = np.max(partial, axis=0).astype(np.float64)
    # a dot product of d terms errs by at most d roundoffs of |z_i| |z_j|, in any order of summation
    # (Jeannerod & Rump 2013); rounding both factors to float32 first adds two, and two more cover
    # products of these errors
    error = (d + 4) * UNIT_ROUNDOFF_32 * norms * norms.max(initial=0.0)
    return largest + error, error
