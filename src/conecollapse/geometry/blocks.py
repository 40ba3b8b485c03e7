r"""The exact cone of a table in blocks of features, by several workers side by side.

1. *Groups.* One pass says where each point lies along a fixed random direction. Only points that
   are near each other along it can be multiples of each other; these leave their blocks and are
   compared. One point of each group is its leader.
2. *Shares.* The leaders go to every worker. Each decides its share of them over all leaders by the
   stages of a cone in memory (`certified.decide`): first the rays that a cheap witness proves, then
   the others, knowing the rays of all shares.
3. *Conclusion.* One worker puts the decisions together (`certified.conclude`): combinations over
   points that another worker deleted become combinations of rays, and points near the tolerance are
   decided one after the other.

Where one worker is enough, the points are read into its memory, and the cone is found there. In
either way every worker holds all leaders. How many bytes that takes is known before it starts
(`memory_needed`); if the workers have less, blocks are decided one by one and merged
(`conecollapse.geometry.streaming`), which takes the memory of one block and of all rays.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from conecollapse._errors import InvalidInputError, SlowWarning
from conecollapse._linalg import (
    columns_as_points,
    merge_colinear,
    near_along,
    projection,
    take_rows,
    unit_rows,
)
from conecollapse._progress import teller
from conecollapse._types import BoolArray, Effort, FloatArray, IntArray, Points
from conecollapse.geometry.certified import Decisions, conclude, decide
from conecollapse.geometry.certified.cost import Budget
from conecollapse.geometry.merging import Part, part_of, stacked
from conecollapse.tables import BlockedTable
from conecollapse.tables.blocks import Step, Worker, by_block

HELD_RAYS = 2**24  # entries up to which a cone holds its rays: 128 MiB
# bytes at the peak for each entry of the points: blocks as they came, unit points, and of dense
# ones round coordinates in both precisions, of sparse ones the lists of the points with each
# coordinate; and for each point, where the search asks all of them about 512 at a time
DENSE_ENTRY, SPARSE_ENTRY, EACH_POINT = 48, 48, 2**11
# part of a worker's memory that the leaders may take: Dask writes to disk what is above 0.6 of it
USABLE = 0.6
WORTH_SAYING = 0.1  # part of the memory from which on progress names both sizes
# multiplications of all points with each other that a share is worth, and entries of sparse points:
# below that the messages take longer than the work
DENSE_SHARE, SPARSE_SHARE = 2**31, 2**20


def part_of_features(table: BlockedTable, tol: float, effort: Effort) -> Part | None:
    """The part of a surveyed table in blocks of features; None where the workers have too little
    memory for it."""
    workers = table.workers
    if not fits(memory_needed(table, len(workers)), workers):
        return None
    count = n_shares(table, len(workers)) if effort == "exact" else 1
    part = part_of_shares(table, tol, count) if count > 1 else None
    return part_of_whole(table, tol, effort) if part is None else part


def memory_needed(table: BlockedTable, n_workers: int = 1) -> float:
    """Bytes that a worker takes at the peak: its part of the blocks, and all leaders."""
    each = SPARSE_ENTRY if table.is_sparse else DENSE_ENTRY
    own = 12 if table.is_sparse else 8
    return table.n_stored * (each + own / n_workers) + table.shape[1] * EACH_POINT


def fits(needed: float, workers: list[Worker]) -> bool:
    """Whether every worker has the memory, which is said before work begins: a warning where it has
    not, else as progress."""
    memory = min(worker.memory for worker in workers)
    who = "each worker" if workers[0].address else "this process"
    sizes = f"{needed / 2**30:.2g} GiB of points and has {memory / 2**30:.2g} GiB"
    if needed > USABLE * memory:
        warnings.warn(
            f"{who} would hold {sizes}, of which {USABLE:.0%} may be used: blocks are decided one"
            " by one and merged, which takes longer where many points are rays.",
            SlowWarning,
            stacklevel=4,
        )
        return False
    tell = teller()
    if tell is not None and needed > WORTH_SAYING * memory:
        tell(f"{who} will hold {sizes}", 0, 1)
    return True


def n_shares(table: BlockedTable, n_workers: int) -> int:
    """Workers among which the points are divided: as many as have enough to do."""
    n, m = table.shape
    dense = m * m * n // DENSE_SHARE
    return int(min(n_workers, max(1, table.n_stored // SPARSE_SHARE if table.is_sparse else dense)))


def part_of_whole(table: BlockedTable, tol: float, effort: Effort) -> Part:
    """The part of all points in the memory of one worker."""
    part: Part = table.share_out(points_of, None, [Step("rays", _find, 1)], (tol, effort))[0]
    return part


def _find(items: list[Points], _k: int, _told: list[Any], asked: tuple[float, Effort]) -> Part:
    tol, effort = asked
    points = stacked(items)
    items.clear()
    return _held(points, part_of(points, tol, effort=effort))


class Shared(NamedTuple):
    """What every worker needs to know."""

    tol: float
    leader: IntArray  # (n_points,): of the group of each, -1 for zero points
    apart: float  # the largest distance of a point from its leader
    n_shares: int

    def share(self, k: int, U: Points) -> IntArray:
        """The leaders of share ``k``."""
        return np.arange(k, U.shape[0], self.n_shares)


def part_of_shares(table: BlockedTable, tol: float, count: int) -> Part | None:
    """The part of all points, decided in ``count`` shares; None where rounding spoils a proof at
    ``tol``, or there is one ray."""
    leader, apart = group_features(table, tol)
    leaders = np.flatnonzero(leader == np.arange(len(leader)))
    if len(leaders) == 1:
        return None
    steps = [
        Step("lead", _decide_cheaply, count),
        Step("decide", _decide, count),
        Step("settle", _conclude, 1),
    ]
    places = by_block(table.bounds, leaders)
    part: Part | None = table.share_out(
        _unit_rows_of, places, steps, Shared(tol, leader, apart, count)
    )[0]
    return part


def _decide_cheaply(items: list[Points], k: int, _told: list[Any], shared: Shared) -> Decisions:
    """The rays of a share that a cheap witness proves: the others are decided over all of them."""
    U = stacked(items)
    return decide(U, shared.tol, shared.share(k, U), budget=Budget.cheap())


def _decide(items: list[Points], k: int, told: list[Decisions], shared: Shared) -> Decisions:
    """The other points of a share, knowing what all shares proved."""
    known, U = Decisions.join(told), stacked(items)
    share = shared.share(k, U)
    if not len(known.undecided_among(share)):
        return known
    return decide(U, shared.tol, share, known=known)


def _conclude(items: list[Points], _k: int, told: list[Decisions], shared: Shared) -> Part | None:
    U, (tol, leader, apart, _) = stacked(items), shared
    proof = conclude(U, tol, Decisions.join(told))
    if proof.unproven:
        return None
    leaders = np.flatnonzero(leader == np.arange(len(leader)))
    certificate = proof.certificate(U, leaders, leader, apart, tol)
    return _held(U, Part(len(leader), take_rows(U, proof.rays), certificate))


def _held(points: Points, part: Part) -> Part:
    """The part, with its rays if these are few enough to travel and to be held."""
    if part.certificate is None:
        return part
    entries = points.nnz if sp.issparse(points) else len(part.certificate.rays) * points.shape[1]
    return part if entries <= HELD_RAYS else replace(part, rays=None)


def group_features(table: BlockedTable, tol: float) -> tuple[IntArray, float]:
    """`certified.group` of the columns of a table.

    Runs of points that are near each other along the fixed direction leave their blocks and are
    compared, as many at a time as a block has.
    """
    found = table.visit(_key_of, stage="measure")
    key, filled = (np.concatenate(some) for some in zip(*found, strict=True))
    if not filled.any():
        raise InvalidInputError(
            f"all {len(filled)} points are zero; a cone needs at least one point that is not."
        )
    leader, worst = np.where(filled, np.arange(len(filled)), -1), 0.0
    runs = _crowded(key, filled, near_along(table.shape[0], tol))
    size = max(-(-len(filled) // table.n_blocks), 1)
    n_pieces = min(len(runs), -(-sum(map(len, runs)) // size))
    for k in range(n_pieces):
        some = np.sort(np.concatenate(runs[k::n_pieces]))
        at, apart = merge_colinear(fetch(table, some), tol)
        leader[some], worst = some[at], max(worst, apart)
    return leader, worst


def _key_of(block: Points, _: Any, __: Any) -> tuple[FloatArray, BoolArray]:
    """The places of the columns along the fixed direction, and which are not zero."""
    U, lengths = unit_rows(points_of(block))
    return np.asarray(U @ projection(U.shape[1])), lengths > 0


def _crowded(key: FloatArray, filled: BoolArray, near: float) -> list[IntArray]:
    """Runs of points that are near each other along the direction; points alone in a run are like
    no other."""
    order = np.flatnonzero(filled)
    order = order[np.argsort(key[order], kind="stable")]
    runs = np.split(order, np.flatnonzero(np.diff(key[order]) > near) + 1)
    return [run for run in runs if len(run) > 1]


def fetch(table: BlockedTable, points: IntArray) -> Points:
    """These points, increasing, as unit rows."""
    return stacked(table.visit(_unit_rows_of, by_block(table.bounds, points), stage="fetch"))


def _unit_rows_of(block: Points, columns: IntArray, _: Any) -> Points:
    """These columns of a block, increasing, as unit rows."""
    return unit_rows(take_rows(points_of(block), columns))[0]


def points_of(block: Points, *_: Any) -> Points:
    """The columns of a block as rows; sparse ones with increasing coordinates and without stored
    zeros, which would count as entries."""
    points = columns_as_points(block)
    if sp.issparse(points) and not (points.has_canonical_format and points.data.all()):
        points = points.copy()  # the block may not be ours
        points.sum_duplicates()
        points.eliminate_zeros()
    return points
