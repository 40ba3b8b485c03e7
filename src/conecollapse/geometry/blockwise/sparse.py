"""Sparse points in blocks, from their supports; see `conecollapse.geometry.certified.support` for
the mathematics.

1. *Tiles*, one for each pair of blocks: the rarest coordinate of a point proves it a ray if every
   other point that has it, in whatever block, has mass off the support of the point; the same look
   tells the lift of that witness.
2. A target that this does not decide can only be represented by points whose supports lie inside
   its own. If these are few they are sent to one place, and the method for points in memory
   decides. If they are too many to hold (a word that nearly every document has), the target goes
   round the blocks instead (`conecollapse.geometry.blockwise.rounds`).
3. The functionals found are lifted over all blocks.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from conecollapse._kernels import kernel
from conecollapse._types import AnyArray, Effort, FloatArray, IntArray, Sparse
from conecollapse.certificates import Support
from conecollapse.geometry.blockwise.contained import solve_over_contained
from conecollapse.geometry.blockwise.decided import Decided
from conecollapse.geometry.blockwise.lifts import lifted, lifts, place_of
from conecollapse.geometry.blockwise.measure import (
    SMALLEST_SHARE,
    Measured,
    stack,
    unit_points_sparse,
)
from conecollapse.geometry.blockwise.rounds import Traveller, functionals, travel
from conecollapse.geometry.certified.lists import SUM_ROUNDING
from conecollapse.geometry.certified.witness import CLEAR, LEAST_LIFT, LIFT_MARGIN
from conecollapse.tables import BlockedTable
from conecollapse.tables.blocked import Held

# mass off the support, in units of the value at the coordinate, beyond which more of it changes
# nothing
ENOUGH_OUTSIDE = 8.0
BISECT_FROM = 32  # entries from which a place is found by bisection
SMALLEST_GROUP = 16
FEW_LEFT = 64  # targets up to which those of all blocks are one group


class Rows(NamedTuple):
    """The leaders of one block, compressed by rows with increasing coordinates, and what the rarest
    coordinate of each is."""

    number: int
    ids: IntArray
    ptr: IntArray
    idx: AnyArray
    val: FloatArray
    rarest: AnyArray  # (points,) places in idx
    # coordinate d is the rarest of the points asked[asked_ptr[d]:asked_ptr[d + 1]]
    asked_ptr: AnyArray
    asked: AnyArray

    def matrix(self) -> Sparse:
        # else SciPy copies idx
        ptr = (
            self.ptr.astype(self.idx.dtype)
            if len(self.idx) <= np.iinfo(self.idx.dtype).max
            else self.ptr
        )
        return sp.csr_array(
            (self.val, self.idx, ptr), shape=(len(self.ids), len(self.asked_ptr) - 1)
        )


class Rules(NamedTuple):
    """What every task needs to know."""

    tol: float
    rounding: float  # of a sum over the support of a point
    dim: int
    most_entries: int  # of the contained points that one block may send about a target
    # numbers of all points that their rarest coordinate does not prove, increasing
    left: IntArray = np.zeros(0, np.int64)

    @classmethod
    def of(cls, table: BlockedTable, measured: Measured, tol: float) -> Rules:
        rounding = float(SUM_ROUNDING * (measured.longest + 2) * measured.heaviest)
        return cls(
            tol,
            rounding,
            table.shape[0],
            max(measured.entries // table.n_blocks, SMALLEST_SHARE) // table.n_blocks,
        )


@dataclass(frozen=True)
class Functionals:
    """Targets with a functional on the support of each, to be lifted over all blocks."""

    ids: IntArray
    U: Sparse  # the targets
    F: Sparse
    decided: Decided = field(default_factory=Decided)
    # targets with too many contained points
    wide: list[tuple[int, Sparse]] = field(default_factory=list)


def decide_sparse(
    table: BlockedTable, leader: IntArray, measured: Measured, tol: float, effort: Effort
) -> tuple[Decided, Support, Callable[[IntArray], Sparse]]:
    """Decide the leaders of groups: combinations, and witnesses on the supports of rays; and who
    fetches rays as unit rows."""
    rules = Rules.of(table, measured, tol)
    is_leader = leader == np.arange(len(leader))
    places = [
        np.flatnonzero(is_leader[a:b])
        for a, b in zip(table.bounds[:-1], table.bounds[1:], strict=True)
    ]
    pieces = [
        (k, int(first), rows)
        for k, (first, rows) in enumerate(zip(table.bounds[:-1], places, strict=True))
    ]
    rows = table.hold(made_rows, pieces, measured.holders, stage="points", last=True)
    rarest, which = _by_rarest(rows, [len(some) for some in places], rules)
    fetch = partial(_fetch, rows, table)
    left = np.array([i for k, some in which for i in table.bounds[k] + places[k][some]], np.int64)
    if not which or effort == "quick":
        return Decided(doubtful=left.tolist()), rarest, fetch
    decided, found = decide_left(rows, which, rules._replace(left=left))
    return decided, joined([rarest, *found]), fetch


def divided(
    which: list[tuple[int, IntArray]], sizes: IntArray, count: int
) -> list[list[tuple[int, IntArray]]]:
    """Targets, of ``sizes`` entries each, in at most ``count`` parts of about equal work."""
    work, part = np.zeros(count), np.empty(len(sizes), np.int64)
    for i in np.argsort(-sizes, kind="stable"):
        part[i] = np.argmin(work)
        work[part[i]] += sizes[i]
    ends = np.cumsum([len(some) for _, some in which])[:-1]
    parts = [
        [(k, some[own == p]) for (k, some), own in zip(which, np.split(part, ends), strict=True)]
        for p in range(count)
    ]
    return [
        piece for piece in ([(k, some) for k, some in part if len(some)] for part in parts) if piece
    ]


def decide_left(
    rows: Held, which: list[tuple[int, IntArray]], rules: Rules
) -> tuple[Decided, list[Support]]:
    """Decide the points at these places of the blocks, which their rarest coordinate does not
    prove."""
    targets = rows.select(_targets, which, stage="contained")
    if len(rules.left) <= FEW_LEFT:  # one group is asked about at once
        targets = [rows.join(targets, _one_group, stage="contained")]
    groups = rows.collect(
        rows.cross(targets, _contained, _decide, rules, stage="contained"), stage="contained"
    )[0]
    travelled, decided = travel(rows, [one for group in groups for one in group.wide], rules)
    groups += _for_lifts(travelled, rules)
    found = []
    for group in rows.collect(
        rows.cross(groups, lifts, lifted, rules, stage="lifts", thin=True), stage="lifts"
    )[0]:
        decided.add(group.decided)
        found.append(group.support)
    return decided, found


def _fetch(rows: Held, table: BlockedTable, points: IntArray) -> Sparse:
    """These leaders, increasing, as unit rows."""
    place = np.searchsorted(points, table.bounds)
    which = [(k, points[a:b]) for k, (a, b) in enumerate(itertools.pairwise(place)) if a < b]
    return stack(rows.collect(rows.select(_unit_rows, which, stage="fetch"), stage="fetch")[0])


def _unit_rows(rows: Rows, ids: IntArray, _: Any) -> Sparse:
    U = rows.matrix()
    return U if len(ids) == len(rows.ids) else sp.csr_array(U[np.searchsorted(rows.ids, ids)])


def _one_group(groups: list[Functionals]) -> Functionals:
    U = stack([group.U for group in groups])
    return Functionals(np.concatenate([group.ids for group in groups]), U, U)


def _for_lifts(found: list[Traveller], rules: Rules) -> list[Functionals]:
    return [Functionals(*functionals(found, rules.dim))] if found else []


def joined(parts: list[Support]) -> Support:
    """Witnesses of all parts, in the order of their points."""
    of = np.concatenate([part.of for part in parts])
    order = np.argsort(of)
    F = sp.csr_array(sp.vstack([part.F for part in parts]))
    return Support(
        of[order], sp.csr_array(F[order]), np.concatenate([part.lift for part in parts])[order]
    )


def made_rows(block: Any, piece: tuple[int, int, IntArray], holders: IntArray) -> Rows:
    number, first, rows = piece
    U = unit_points_sparse(block, rows)
    ptr, idx = U.indptr.astype(np.int64), U.indices.astype(np.int32, copy=False)
    rarest = np.empty(len(rows), np.int64)
    _find_rarest(ptr, idx, holders, rarest)
    chosen = idx[rarest]
    asked_ptr = np.concatenate([[0], np.cumsum(np.bincount(chosen, minlength=U.shape[1]))]).astype(
        np.int32
    )
    return Rows(
        number,
        first + rows,
        ptr,
        idx,
        U.data,
        rarest,
        asked_ptr,
        np.argsort(chosen, kind="stable").astype(np.int32),
    )


@kernel
def _find_rarest(ptr, idx, holders, rarest):  # type: ignore[no-untyped-def]
    """The place of the coordinate of each point that the fewest points have, the first of
    several."""
    for i in range(len(rarest)):
        best = ptr[i]
        for t in range(ptr[i] + 1, ptr[i + 1]):
            if holders[idx[t]] < holders[idx[best]]:
                best = t
        rarest[i] = best


class Own(NamedTuple):
    """Number, rarest coordinate, value there and number of entries of each point of a block."""

    ids: IntArray
    at: AnyArray
    value: FloatArray
    size: IntArray


def own_of(rows: Rows) -> Own:
    return Own(rows.ids, rows.idx[rows.rarest], rows.val[rows.rarest], np.diff(rows.ptr))


def _by_rarest(
    rows: Held, lengths: list[int], rules: Rules
) -> tuple[Support, list[tuple[int, IntArray]]]:
    """Witnesses of the points whose rarest coordinate proves them, and the places of the others, in
    groups, by block.

    ``lengths`` are the numbers of points in the blocks.
    """
    n_blocks = rows.n_blocks
    which = [(a, b) for a in range(n_blocks) for b in range(a, n_blocks)]
    # each point looks at the points that have its rarest coordinate
    costs = [lengths[a] + lengths[b] * (a != b) for a, b in which]
    tiles = rows.tiles(_tile, which, rules, stage="tiles", costs=costs)
    own = [found for _, _, found in tiles if found is not None]
    lifts = [np.zeros(len(index)) for index, *_ in own]
    for (a, b), (first, second, _) in zip(which, tiles, strict=True):
        np.maximum(lifts[a], first, out=lifts[a])
        np.maximum(lifts[b], second, out=lifts[b])
    return proven_by_rarest(own, lifts, rules)[:2]


def proven_by_rarest(
    own: list[Own], lifts: list[FloatArray], rules: Rules
) -> tuple[Support, list[tuple[int, IntArray]], IntArray]:
    """As `_by_rarest`, and the sizes of the points that are left; of each block what is known of
    its points, and the lifts they need."""
    index, at, value, size = (np.concatenate(some) for some in zip(*own, strict=True))
    lift = np.maximum(np.concatenate(lifts), LEAST_LIFT)
    # infinite where a point inside the support has the coordinate, too
    finite = np.where(np.isfinite(lift), lift, 0.0)
    proven = np.isfinite(lift) & (
        value > CLEAR * rules.tol * np.hypot(1.0, finite * np.sqrt(rules.dim - size))
    )
    F = sp.csr_array(
        (np.ones(int(proven.sum())), at[proven], np.arange(int(proven.sum()) + 1)),
        shape=(int(proven.sum()), rules.dim),
    )
    left = []
    starts = np.concatenate([[0], np.cumsum([len(some) for some in lifts])])
    for k in range(len(lifts)):
        some = np.flatnonzero(~proven[starts[k] : starts[k + 1]])
        pieces = max(1, min(len(some) // SMALLEST_GROUP, 4))
        left += [(k, piece) for piece in np.array_split(some, pieces)] if len(some) else []
    return Support(index[proven], F, lift[proven]), left, size[~proven]


def _tile(a: Rows, b: Rows, rules: Rules) -> tuple[FloatArray, FloatArray, Own | None]:
    """The lifts that points of ``a`` need because of points of ``b``, and the other way round;
    infinite where a point is contained.

    The tile of a block with itself also has what is known of each point.
    """
    first, second = np.zeros(len(a.ids)), np.zeros(len(b.ids))
    same = a.number == b.number
    needed_lifts(a, b, (0, 1), same, rules.rounding, first)
    if same:
        return first, second, own_of(a)
    needed_lifts(b, a, (0, 1), same, rules.rounding, second)
    return first, second, None


@kernel
def needed_lifts(mine, others, some, same, rounding, needed):  # type: ignore[no-untyped-def]
    """Raise ``needed`` to the lift that makes the witness of each of ``mine``, 1 at its rarest
    coordinate, negative on ``others``.

    ``some`` says which of the others are looked at: the first one, and the step to the next.
    """
    ptr, idx = mine.ptr, mine.idx
    for j in range(some[0], len(others.ids), some[1]):
        a, b = others.ptr[j], others.ptr[j + 1]
        for t in range(a, b):
            d = others.idx[t]
            for p in range(mine.asked_ptr[d], mine.asked_ptr[d + 1]):
                i = mine.asked[p]
                if same and i == j:
                    continue
                value, outside = others.val[t], 0.0
                at, high = ptr[i], ptr[i + 1]
                for s in range(a, b):
                    at = _seek(idx, at, high, others.idx[s])
                    if at == high or idx[at] != others.idx[s]:
                        outside += others.val[s]
                        if outside >= ENOUGH_OUTSIDE * value:
                            break
                lift = (
                    np.inf
                    if outside <= rounding
                    else (LIFT_MARGIN * value + rounding) / (outside - rounding)
                )
                needed[i] = max(needed[i], lift)


@kernel
def _seek(sorted_list, at, high, wanted):  # type: ignore[no-untyped-def]
    """First place from ``at`` on whose entry is not below ``wanted``."""
    while high - at > BISECT_FROM:
        middle = (at + high) >> 1
        if sorted_list[middle] < wanted:
            at = middle + 1
        else:
            high = middle
    while at < high and sorted_list[at] < wanted:
        at += 1
    return at


def _targets(rows: Rows, places: IntArray, _: Any) -> Functionals:
    U = sp.csr_array(rows.matrix()[places])
    return Functionals(rows.ids[places], U, U)


class Contained(NamedTuple):
    """Points of a block whose supports lie inside those of targets; targets with too many are not
    served."""

    ids: IntArray
    U: Sparse
    wide: AnyArray  # (targets,)


def _contained(group: Functionals, rows: Rows, rules: Rules) -> Contained:
    counts = np.diff(rows.ptr)
    wide, used = np.zeros(len(group.ids), bool), np.zeros(len(rows.ids), bool)
    for i in range(len(group.ids)):
        inside = np.zeros(len(rows.ids), bool)
        _mark_inside(rows, place_of(group.U, i), inside)
        inside &= rows.ids != group.ids[i]
        wide[i] = counts[inside].sum() > rules.most_entries
        if not wide[i]:
            used |= inside
    return Contained(rows.ids[used], sp.csr_array(rows.matrix()[used]), wide)


@kernel
def _mark_inside(rows, place, inside):  # type: ignore[no-untyped-def]
    """Mark the points whose supports lie inside that of the target."""
    for j in range(len(inside)):
        inside[j] = True
        for t in range(rows.ptr[j], rows.ptr[j + 1]):
            if place[rows.idx[t]] < 0:
                inside[j] = False
                break


def _decide(group: Functionals, contained: list[Contained], rules: Rules) -> Functionals:
    """Decide targets over all points contained in them, by the method for points in memory."""
    wide = np.any([some.wide for some in contained], axis=0)
    index = np.concatenate([some.ids for some in contained])
    others = ~np.isin(index, group.ids)
    every = stack([*(some.U for some in contained)])
    served = np.flatnonzero(~wide)
    U = sp.csr_array(sp.vstack([every[others], group.U[served]]))
    U.sort_indices()
    numbers = np.concatenate([index[others], group.ids[served]])
    first = int(others.sum())
    found, F = Decided(), sp.csr_array((0, rules.dim))
    kept: IntArray = np.zeros(0, np.int64)
    if len(served):
        kept, F = solve_over_contained(
            U, numbers, first, np.isin(numbers, rules.left), rules.tol, found
        )
    return Functionals(
        numbers[kept],
        sp.csr_array(U[kept]),
        F,
        found,
        [(int(group.ids[i]), group.U[[i]]) for i in np.flatnonzero(wide)],
    )
