"""Sparse points that are small enough to be copied to every worker: the same steps as in `sparse`,
with one message between them.

Every worker has all points. It looks for its share of the points where they have the rarest
coordinates of others, tells the lifts that this asks for, and decides its share of the points that
their rarest coordinates do not prove.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from conecollapse._types import Effort, FloatArray, IntArray, Points, Sparse
from conecollapse.certificates import Support
from conecollapse.geometry.blockwise.copies import Found, Grouped, measured_from, rows_among
from conecollapse.geometry.blockwise.decided import Decided
from conecollapse.geometry.blockwise.measure import Measured, stack
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
from conecollapse.tables.blocked import Kept, Looked
from conecollapse.tables.in_place import InPlace


class Shared(NamedTuple):
    """What every task needs to know."""

    rules: Rules
    n_shares: int  # tasks of each step
    effort: Effort


class Own(NamedTuple):
    """All leaders, by block, as one worker holds them."""

    grouped: Grouped
    rows: list[Rows]


class Share(NamedTuple):
    """What one worker tells: decisions and witnesses, and the leaders of some blocks as unit rows;
    the first one also what all know."""

    decided: Decided
    support: list[Support]
    ids: list[IntArray]  # of each block
    U: list[Sparse]
    known: tuple[IntArray, float] | None  # leaders of all points, the largest distance from one


def decide_sparse_together(
    table: BlockedTable, looked: Looked, measured: Measured, tol: float, effort: Effort
) -> Found | None:
    """As `conecollapse.geometry.blockwise.sparse.decide_sparse`; None where there is one ray."""
    count = min(table.together, max(1, measured.entries // ENTRIES_OF_A_TASK))
    shared = Shared(Rules.of(table, measured, tol), count, effort)
    shares = table.work_together(
        _compare, _decide, looked, shared, count, stages=("tiles", "contained")
    )
    if shares[0] is None:
        return None
    decided, support = Decided(), list[Support]()
    for part in shares:
        decided.add(part.decided)
        support += part.support
    ids, U = (
        np.concatenate([some for part in shares for some in part.ids]),
        stack([some for part in shares for some in part.U]),
    )
    leader, apart = shares[0].known
    return Found(leader, apart, decided, joined(support), partial(rows_among, ids, U))


def _compare(blocks: list[Points], k: int, parts: list[Measured], shared: Shared) -> Kept:
    """The leaders of all blocks, which stay here, and the lifts that this share of them asks of the
    others."""
    measured = measured_from(parts)
    assert measured.holders is not None
    grouped = Grouped.of(blocks, measured, shared.rules.tol, as_sparse=True)
    if sum(map(len, grouped.places)) == 1:
        return Kept(None, None)
    pieces = zip(blocks, grouped.bounds[:-1].tolist(), grouped.places, strict=True)
    rows = [
        made_rows(block, (number, first, places), measured.holders)
        for number, (block, first, places) in enumerate(pieces)
    ]
    needed = [np.zeros(len(some.ids)) for some in rows]
    for others in rows:
        for mine, lifts in zip(rows, needed, strict=True):
            # every count-th point: shares are equal whatever points cost, and no single one is a
            # large part of all
            needed_lifts(
                mine, others, (k, shared.n_shares), mine is others, shared.rules.rounding, lifts
            )
    return Kept(Own(grouped, rows), needed)


def _decide(
    own: Own | None, k: int, needed: list[list[FloatArray]], shared: Shared
) -> Share | None:
    """What this share decides, with witnesses; the first one also tells those that all of them
    know."""
    if own is None:
        return None
    decided, support = _decided(own.rows, k, needed, shared)
    start, stop = (len(own.rows) * i // shared.n_shares for i in (k, k + 1))
    # nearly all points are rays as a rule, and in this order nobody need sort them
    some = own.rows[start:stop]
    known = (own.grouped.leader, own.grouped.apart) if k == 0 else None
    return Share(decided, support, [one.ids for one in some], [one.matrix() for one in some], known)


def _decided(
    rows: list[Rows], k: int, needed: list[list[FloatArray]], shared: Shared
) -> tuple[Decided, list[Support]]:
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
