"""The product that proves dense points in blocks that lead in their own direction: a tile for each
pair of blocks.

All blocks share round coordinates, from the moments of all points; see
`conecollapse.geometry.certified.frame` and ``products``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from conecollapse._linalg import take_rows
from conecollapse._threads import serial_blas
from conecollapse._types import AnyArray, FloatArray, IntArray
from conecollapse.geometry.blockwise.measure import Moments, in_slices
from conecollapse.geometry.certified.frame import NULL_VARIANCE, Frame, lift, whitening
from conecollapse.geometry.certified.lead import TILE_COLUMNS, TILE_ROWS, UNIT_ROUNDOFF_32
from conecollapse.geometry.certified.witness import CLEAR, EPS
from conecollapse.tables import BlockedTable


class Round(NamedTuple):
    """Coordinates ``z = (q - centre) T`` that all blocks share, as in
    `conecollapse.geometry.certified.frame`."""

    centre: FloatArray
    T: FloatArray
    scale: FloatArray
    spread: float

    @classmethod
    def of(cls, moments: Moments) -> Round:
        m = moments.size
        variance, V = np.linalg.eigh(moments.scatter)
        keep = variance > NULL_VARIANCE * max(variance[-1], 0.0)
        variance = variance[keep]
        scale = whitening(variance, m)
        spread = float(np.sqrt(variance.sum() / (variance.sum() + m * moments.mean @ moments.mean)))
        # numbers that the certificate can hold in float32
        T = (V[:, keep] * scale).astype(np.float32).astype(np.float64)
        return cls(moments.mean, T, scale, spread)

    def frame(self, U: FloatArray, sums: FloatArray) -> Frame:
        """These points in the shared coordinates."""
        lifted = lift(U / sums[:, None] - self.centre, self.T)
        single = lifted[:, 1 : 1 + len(self.scale)].astype(np.float32)
        return Frame(sums, self.centre, self.T, self.scale, self.spread, lifted, single)


class Rounded(NamedTuple):
    """One block in round coordinates, and of each point ``|z|^2``, ``|T z|^2``, ``T z . centre``,
    ``T z . 1`` and ``1 . u``."""

    number: int
    single: AnyArray
    thin: FloatArray  # (5, points)


def lead_in_own_direction(
    table: BlockedTable, pieces: list[Any], around: Round, tol: float
) -> tuple[AnyArray, FloatArray]:
    """Which leaders the shared metric proves, and its offsets; see
    `conecollapse.geometry.certified.dense`."""
    rounded = table.hold(_rounded, pieces, around, stage="round")
    n_blocks = table.n_blocks
    which = [(a, b) for a in range(n_blocks) for b in range(a, n_blocks)]
    # of float32: four are as large as two blocks
    tiles = rounded.tiles(_tile, which, stage="tiles", side=2)
    thin = [found for (a, b), (_, _, found) in zip(which, tiles, strict=True) if a == b]
    maxima = [np.full(found.shape[1], -np.inf, np.float32) for found in thin]
    for (a, b), (first, second, _) in zip(which, tiles, strict=True):
        np.maximum(maxima[a], first, out=maxima[a])
        np.maximum(maxima[b], second, out=maxima[b])
    return proven_by(np.concatenate(maxima), np.concatenate(thin, axis=1), around, tol)


def proven_by(
    maxima: AnyArray, thin: FloatArray, around: Round, tol: float
) -> tuple[AnyArray, FloatArray]:
    """Which points lead in their own direction, and the offsets; ``maxima`` are the largest
    products with others, ``thin`` as `thin_of`."""
    largest = maxima.astype(np.float64)
    own, stretched, at_centre, at_ones, sums = thin
    norms = np.sqrt(own)
    error = (len(around.scale) + 4) * UNIT_ROUNDOFF_32 * norms * norms.max(initial=0.0)
    half = (own - largest - error) / 2
    offset = own - half + at_centre
    n = len(around.centre)
    norm2 = stretched - 2 * offset * at_ones + n * offset**2
    distance = half * sums / np.sqrt(np.maximum(norm2, np.finfo(np.float64).tiny))
    rounding = 32 * EPS * (n + around.scale.max() / around.scale.min()) / around.spread
    return (half > error) & (distance > CLEAR * tol + rounding), offset


def _rounded(block: AnyArray, piece: tuple[int, int, IntArray], around: Round) -> Rounded:
    number, _, rows = piece
    single, thin = np.empty((len(rows), len(around.scale)), np.float32), np.empty((5, len(rows)))
    for a, U, _ in in_slices(block, as_sparse=False):
        first, last = np.searchsorted(rows, [a, a + len(U)])
        U = take_rows(U, rows[first:last] - a)
        frame = around.frame(U, U.sum(axis=1))
        single[first:last] = frame.single
        thin[:, first:last] = thin_of(frame)
    return Rounded(number, single, thin)


def thin_of(frame: Frame) -> FloatArray:
    """The five numbers of each point; see `Rounded`."""
    Z, squares = frame.Z, frame.Z**2
    at_centre, at_ones = Z @ (frame.T.T @ frame.centre), Z @ frame.T.sum(axis=0)
    return np.stack([squares.sum(axis=1), squares @ frame.scale**2, at_centre, at_ones, frame.sums])


def _tile(a: Rounded, b: Rounded, _: Any) -> tuple[AnyArray, AnyArray, FloatArray | None]:
    """The largest product of each point of ``a`` with one of ``b``, and the other way round; no
    point with itself.

    The tile of a block with itself also has what is known of each point.
    """
    same = a.number == b.number
    first, second = _largest(a.single, b.single, range(0, len(a.single), TILE_ROWS), same=same)
    return first, second, a.thin if same else None


def share_of_products(single: AnyArray, k: int, count: int) -> AnyArray:
    """The largest product of each point with another one, of those that are share ``k`` of
    ``count`` equal ones of all products.

    Stripes of rows get shorter, since each begins at the diagonal, so that shares take them in
    turn, forwards and backwards.
    """
    rows = [
        row
        for i, row in enumerate(range(0, len(single), TILE_ROWS))
        if k in (i % (2 * count), 2 * count - 1 - i % (2 * count))
    ]
    return np.maximum(*_largest(single, single, rows, same=True))


def _largest(
    A: AnyArray, B: AnyArray, starts: Iterable[int], *, same: bool
) -> tuple[AnyArray, AnyArray]:
    """The largest product of each row of ``A``, of the stripes that begin there, with one of ``B``,
    and the other way round."""
    first, second = (np.full(len(some), -np.inf, np.float32) for some in (A, B))
    with serial_blas():
        for row in starts:
            rows = slice(row, row + TILE_ROWS)
            for column in range(row if same else 0, len(second), TILE_COLUMNS):
                columns = slice(column, column + TILE_COLUMNS)
                tile = A[rows] @ B[columns].T
                if same and column == row:
                    np.fill_diagonal(tile, -np.inf)
                np.maximum(first[rows], tile.max(1), out=first[rows])
                np.maximum(second[columns], tile.max(0), out=second[columns])
    return first, second
