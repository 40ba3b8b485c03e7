"""Sparse points that are small enough to be copied to every worker: the same steps as in `sparse`, with one message between them.

Every worker has all points. It looks for its share of the points where they have the rarest coordinates of others, tells the lifts that
this asks for, and decides its share of the points that their rarest coordinates do not prove. Meanwhile the client fetches the points,
since nearly all of them are rays as a rule.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from conecollapse._linalg import take_rows
from conecollapse._types import Effort, FloatArray, IntArray, Points, Sparse
from conecollapse.certificates import Support
from conecollapse.geometry.blockwise.decided import Decided
from conecollapse.geometry.blockwise.measure import Measured, by_block, stack, unit_points_sparse
from conecollapse.geometry.blockwise.pieces import ENTRIES_OF_A_TASK
from conecollapse.geometry.blockwise.sparse import (
    Rows,
    Rules,
    decide_left,
    divided,
    joined,
    made_rows,
    needed_lifts,
    own_of,
    proven_by_rarest,
)
from conecollapse.tables import BlockedTable
from conecollapse.tables.blocked import Kept
from conecollapse.tables.in_place import InPlace


class Shared(NamedTuple):
    """What every task needs to know."""

    rules: Rules
    bounds: IntArray
    places: list[IntArray]  # of the leaders in their blocks
    holders: IntArray  # how many points have each coordinate
    n_shares: int  # tasks of each step
    effort: Effort


def decide_sparse_together(
    table: BlockedTable, leader: IntArray, measured: Measured, tol: float, effort: Effort
) -> tuple[Decided, Support, Callable[[IntArray], Sparse]]:
    """As `conecollapse.geometry.blockwise.sparse.decide_sparse`."""
    assert measured.holders is not None
    leaders = np.flatnonzero(leader == np.arange(len(leader)))
    places = by_block(table, leaders)
    count = min(table.together, max(1, measured.entries // ENTRIES_OF_A_TASK))
    shared = Shared(Rules.of(table, measured, tol), table.bounds, places, measured.holders, count, effort)
    wait = table.begin_together(_compare, _decide, shared, count, stages=("tiles", "contained"))
    U = stack([take_rows(unit_points_sparse(block), rows) for block, rows in zip(table.at_hand(), places, strict=True)])
    decided, support = Decided(), list[Support]()
    for part, found in wait():
        decided.add(part)
        support += found
    return decided, joined(support), partial(_rows_of, leaders, U)


def _rows_of(leaders: IntArray, U: Sparse, points: IntArray) -> Sparse:
    return U if len(points) == len(leaders) else sp.csr_array(U[np.searchsorted(leaders, points)])


def _compare(blocks: list[Points], k: int, shared: Shared) -> Kept:
    """The leaders of all blocks, which stay here, and the lifts that this share of them asks of the others."""
    pieces = zip(blocks, shared.bounds[:-1].tolist(), shared.places, strict=True)
    rows = [made_rows(block, (number, first, places), shared.holders) for number, (block, first, places) in enumerate(pieces)]
    needed = [np.zeros(len(some.ids)) for some in rows]
    for others in rows:
        for mine, lifts in zip(rows, needed, strict=True):
            # every count-th point: shares are equal whatever points cost, and no single one is a large part of all
            needed_lifts(mine, others, (k, shared.n_shares), mine is others, shared.rules.rounding, lifts)
    return Kept(rows, needed)


def _decide(rows: list[Rows], k: int, needed: list[list[FloatArray]], shared: Shared) -> tuple[Decided, list[Support]]:
    """What this share decides, with witnesses; the first one also tells those that all of them know."""
    lifts = [np.max(some, axis=0) for some in zip(*needed, strict=True)]
    rarest, which, sizes = proven_by_rarest([own_of(some) for some in rows], lifts, shared.rules)
    known = [rarest] if k == 0 else []
    parts = divided(which, sizes, shared.n_shares)
    left = np.array([i for block, some in which for i in rows[block].ids[some]], np.int64)
    if shared.effort == "quick":
        return Decided(doubtful=left.tolist() if k == 0 else []), known
    if k >= len(parts):
        return Decided(), known
    decided, found = decide_left(InPlace(rows), parts[k], shared.rules._replace(left=left))
    return decided, [*known, *found]
