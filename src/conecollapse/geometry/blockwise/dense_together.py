"""Dense points that are small enough to be copied to every worker: the same steps as in `dense`, with one message between them.

Comparing blocks with blocks takes several rounds, and in each the workers wait for the client. Here every worker has all points. It
compares its share of the pairs of points, tells the others the largest product of each point, and decides its share of the points that
these products do not prove. Only linear work, the unit points and their round coordinates, is done by each of them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from conecollapse._linalg import take_rows
from conecollapse._types import AnyArray, Effort, FloatArray, IntArray
from conecollapse._types import Points as AnyPoints
from conecollapse.certificates import Metric
from conecollapse.geometry.blockwise.decided import Decided
from conecollapse.geometry.blockwise.dense import N_CANDIDATES, Points, Rules, decide_here
from conecollapse.geometry.blockwise.leading import Round, proven_by, share_of_products, thin_of
from conecollapse.geometry.blockwise.measure import Measured, by_block, fetch, unit_points
from conecollapse.geometry.blockwise.pieces import PAIRS_OF_A_TASK
from conecollapse.geometry.certified.frame import Frame
from conecollapse.tables import BlockedTable
from conecollapse.tables.blocked import Kept

POINTS_OF_A_TASK = 256  # points that are worth a task if most are searched: about 20 ms


class Shared(NamedTuple):
    """What every task needs to know."""

    rules: Rules
    places: list[IntArray]  # of the leaders in their blocks
    n_shares: int  # tasks of each step
    effort: Effort


class Own(NamedTuple):
    """All leaders, numbered from 0, as one worker holds them."""

    points: Points
    frame: Frame


class Known(NamedTuple):
    """What every worker knows after the first step: the points that the products prove, their offsets, and all unit points."""

    by_product: AnyArray
    offset: FloatArray
    U: FloatArray


def decide_dense_together(
    table: BlockedTable, leader: IntArray, measured: Measured, tol: float, effort: Effort
) -> tuple[Decided, Metric, Callable[[IntArray], AnyPoints]]:
    """As `conecollapse.geometry.blockwise.dense.decide_dense`."""
    assert measured.moments is not None
    n, m = table.shape
    leaders = np.flatnonzero(leader == np.arange(m))
    count = min(table.together, max(1, m // POINTS_OF_A_TASK, n * m * m // PAIRS_OF_A_TASK))
    around = Round.of(measured.moments)
    shared = Shared(Rules(around, tol, N_CANDIDATES), by_block(table, leaders), count, effort)
    shares = table.begin_together(_compare, _decide, shared, count, stages=("tiles", "search"))()
    decided = Decided()
    for part, _ in shares:
        decided.add(part)
    by_product, offset, U = shares[0][1]
    metric = Metric(leaders[by_product], around.T.astype(np.float32), around.centre, offset[by_product])
    return decided.renumbered(leaders), metric, partial(fetch, table) if table.is_sparse else partial(_rows_of, leaders, U)


def _rows_of(leaders: IntArray, U: FloatArray, points: IntArray) -> FloatArray:
    return U if len(points) == len(leaders) else U[np.searchsorted(leaders, points)]


def _compare(blocks: list[AnyPoints], k: int, shared: Shared) -> Kept:
    """The unit points in round coordinates, which stay here, and the largest products in this share of the pairs."""
    parts = [take_rows(unit_points(block, as_sparse=False)[0], rows) for block, rows in zip(blocks, shared.places, strict=True)]
    U = np.concatenate(parts)
    points = Points(np.arange(len(U)), U, U.sum(axis=1))
    frame = shared.rules.round.frame(points.U, points.sums)
    return Kept(Own(points, frame), share_of_products(frame.single, k, shared.n_shares))


def _decide(own: Own, k: int, maxima: list[AnyArray], shared: Shared) -> tuple[Decided, Known | None]:
    """What this share decides; the first one also tells what all of them know."""
    rules = shared.rules
    by_product, offset = proven_by(np.max(maxima, axis=0), thin_of(own.frame), rules.round, rules.tol)
    left = np.flatnonzero(~by_product)[k :: shared.n_shares]
    if shared.effort == "quick":
        decided = Decided(doubtful=left.tolist())
    else:
        decided = decide_here(own.points, own.frame, by_product, left, rules)
    return decided, Known(by_product, offset, own.points.U) if k == 0 else None
