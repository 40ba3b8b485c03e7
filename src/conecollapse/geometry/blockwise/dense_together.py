"""Dense points that are small enough to be copied to every worker: the same steps as in `dense`,
with one message between them.

Comparing blocks with blocks takes several rounds, and in each the workers wait for the client. Here
every worker has all points. It compares its share of the pairs of points, tells the others the
largest product of each point, and decides its share of the points that these products do not prove.
Only linear work, the groups, the unit points and their round coordinates, is done by each of them.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from conecollapse._linalg import take_rows
from conecollapse._types import AnyArray, Effort, FloatArray, IntArray
from conecollapse._types import Points as AnyPoints
from conecollapse.certificates import Metric
from conecollapse.geometry.blockwise.copies import Found, Grouped, measured_from, rows_among
from conecollapse.geometry.blockwise.decided import Decided
from conecollapse.geometry.blockwise.dense import N_CANDIDATES, Points, Rules, decide_here
from conecollapse.geometry.blockwise.leading import Round, proven_by, share_of_products, thin_of
from conecollapse.geometry.blockwise.measure import Measured, fetch, unit_points
from conecollapse.geometry.blockwise.pieces import PAIRS_OF_A_TASK
from conecollapse.geometry.certified.frame import Frame
from conecollapse.tables import BlockedTable
from conecollapse.tables.blocked import Kept, Looked

POINTS_OF_A_TASK = 256  # points that are worth a task if most are searched: about 20 ms


class Shared(NamedTuple):
    """What every task needs to know."""

    tol: float
    n_shares: int  # tasks of each step
    effort: Effort


class Own(NamedTuple):
    """All leaders, numbered from 0, as one worker holds them."""

    grouped: Grouped
    points: Points
    frame: Frame
    rules: Rules


class Share(NamedTuple):
    """What one worker tells: its decisions, its rays as unit rows, and, if it is the first one,
    what all of them know."""

    decided: Decided
    rays: IntArray
    U: FloatArray
    # leaders of all points, the largest distance from one, and rays that products prove
    known: tuple[IntArray, float, Metric] | None


def decide_dense_together(
    table: BlockedTable, looked: Looked, tol: float, effort: Effort
) -> Found | None:
    """As `conecollapse.geometry.blockwise.dense.decide_dense`; None if blocks are sparse although
    nobody said so, or there is one ray."""
    n, m = table.shape
    count = min(table.together, max(1, m // POINTS_OF_A_TASK, n * m * m // PAIRS_OF_A_TASK))
    shares = table.work_together(
        _compare, _decide, looked, Shared(tol, count, effort), count, stages=("tiles", "search")
    )
    if shares[0] is None:
        return None
    decided = Decided()
    for part in shares:
        decided.add(part.decided)
    rays, U = (
        np.concatenate(some) for some in zip(*((part.rays, part.U) for part in shares), strict=True)
    )
    leader, apart, metric = shares[0].known
    return Found(
        leader,
        apart,
        decided,
        metric,
        partial(fetch, table) if table.is_sparse else partial(rows_among, rays, U),
    )


def _compare(blocks: list[AnyPoints], k: int, parts: list[Measured], shared: Shared) -> Kept:
    """The unit points in round coordinates, which stay here, and the largest products in this share
    of the pairs."""
    measured = measured_from(parts)
    if measured.moments is None:
        return Kept(None, None)
    grouped = Grouped.of(blocks, measured, shared.tol, as_sparse=False)
    if sum(map(len, grouped.places)) == 1:
        return Kept(None, None)
    rules = Rules(Round.of(measured.moments), shared.tol, N_CANDIDATES)
    parts_of_U = [
        take_rows(unit_points(block, as_sparse=False)[0], rows)
        for block, rows in zip(blocks, grouped.places, strict=True)
    ]
    U = np.concatenate(parts_of_U)
    points = Points(np.arange(len(U)), U, U.sum(axis=1))
    frame = rules.round.frame(points.U, points.sums)
    return Kept(
        Own(grouped, points, frame, rules), share_of_products(frame.single, k, shared.n_shares)
    )


def _decide(own: Own | None, k: int, maxima: list[AnyArray], shared: Shared) -> Share | None:
    """What this share decides; the first one also tells what all of them know."""
    if own is None:
        return None
    rules, leaders = own.rules, own.grouped.leaders
    by_product, offset = proven_by(
        np.max(maxima, axis=0), thin_of(own.frame), rules.round, rules.tol
    )
    left = np.flatnonzero(~by_product)[k :: shared.n_shares]
    if shared.effort == "quick":
        decided = Decided(doubtful=left.tolist())
    else:
        decided = decide_here(own.points, own.frame, by_product, left, rules)
    led = np.flatnonzero(by_product)
    rays = np.concatenate(
        [led[k :: shared.n_shares], np.array([*decided.witness, *decided.doubtful], np.int64)]
    )
    metric = Metric(leaders[led], rules.round.T.astype(np.float32), rules.round.centre, offset[led])
    known = (own.grouped.leader, own.grouped.apart, metric) if k == 0 else None
    return Share(decided.renumbered(leaders), leaders[rays], own.points.U[rays], known)
