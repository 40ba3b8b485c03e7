"""Sparse points in blocks, from their supports; see `conecollapse.geometry.certified.support` for the mathematics.

1. *Tiles*, one for each pair of blocks: the rarest coordinate of a point proves it a ray if every other point that has it, in whatever
block, has mass off the support of the point; the same look tells the lift of that witness. 2. A target that this does not decide can
only be represented by points whose supports lie inside its own. If these are few they are sent to one place, and the method for points
in memory decides. If they are too many to hold (a word that nearly every document has), the target goes round the blocks instead
(`conecollapse.geometry.blockwise.rounds`). 3. The functionals found are lifted over all blocks.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from conecollapse._kernels import kernel
from conecollapse._linalg import row_norms, take_rows
from conecollapse._types import AnyArray, Effort, FloatArray, IntArray, Sparse
from conecollapse.certificates import Support
from conecollapse.geometry.blockwise.contained import solve_over_contained
from conecollapse.geometry.blockwise.decided import Decided
from conecollapse.geometry.blockwise.measure import SMALLEST_SHARE, Measured, stack, unit_points_sparse
from conecollapse.geometry.blockwise.rounds import Traveller, functionals, travel
from conecollapse.geometry.certified.confirm import CLEAR
from conecollapse.geometry.certified.lists import SUM_ROUNDING
from conecollapse.geometry.certified.small import LEAST_LIFT, LIFT_MARGIN
from conecollapse.tables import BlockedTable
from conecollapse.tables.blocked import Held

ENOUGH_OUTSIDE = 8.0  # mass off the support, in units of the value at the coordinate, beyond which more of it changes nothing
BISECT_FROM = 32  # entries from which a place is found by bisection
SMALLEST_GROUP = 16
FEW_LEFT = 64  # targets up to which those of all blocks are one group
FEW_TARGETS = 8  # functionals up to which a walk over all points is quicker than a sparse product


class Rows(NamedTuple):
    """The leaders of one block, compressed by rows with increasing coordinates, and what the rarest coordinate of each is."""

    number: int
    ids: IntArray
    ptr: IntArray
    idx: AnyArray
    val: FloatArray
    rarest: AnyArray  # (points,) places in idx
    asked_ptr: AnyArray  # coordinate d is the rarest of the points asked[asked_ptr[d]:asked_ptr[d + 1]]
    asked: AnyArray

    def matrix(self) -> Sparse:
        return sp.csr_array((self.val, self.idx, self.ptr), shape=(len(self.ids), len(self.asked_ptr) - 1))


class Rules(NamedTuple):
    """What every task needs to know."""

    tol: float
    rounding: float  # of a sum over the support of a point
    dim: int
    most_entries: int  # of the contained points that one block may send about a target
    left: IntArray = np.zeros(0, np.int64)  # numbers of all points that their rarest coordinate does not prove, increasing


@dataclass(frozen=True)
class Functionals:
    """Targets with a functional on the support of each, to be lifted over all blocks."""

    ids: IntArray
    U: Sparse  # the targets
    F: Sparse
    decided: Decided = field(default_factory=Decided)
    wide: list[tuple[int, Sparse]] = field(default_factory=list)  # targets with too many contained points


def decide_sparse(
    table: BlockedTable, leader: IntArray, measured: Measured, tol: float, effort: Effort
) -> tuple[Decided, Support, Callable[[IntArray], Sparse]]:
    """Decide the leaders of groups: combinations, and witnesses on the supports of rays; and who fetches rays as unit rows."""
    rules = Rules(
        tol,
        float(SUM_ROUNDING * (measured.longest + 2) * measured.heaviest),
        table.shape[0],
        max(measured.entries // table.n_blocks, SMALLEST_SHARE) // table.n_blocks,
    )
    is_leader = leader == np.arange(len(leader))
    places = [np.flatnonzero(is_leader[a:b]) for a, b in zip(table.bounds[:-1], table.bounds[1:], strict=True)]
    pieces = [(k, int(first), rows) for k, (first, rows) in enumerate(zip(table.bounds[:-1], places, strict=True))]
    rows = table.hold(_rows, pieces, measured.holders, stage="points")
    rarest, which = _by_rarest(rows, rules)
    fetch = partial(_fetch, rows, table)
    left = np.array([i for k, some in which for i in table.bounds[k] + places[k][some]], np.int64)
    if not which or effort == "quick":
        return Decided(doubtful=left.tolist()), rarest, fetch
    rules = rules._replace(left=left)
    targets = rows.select(_targets, which, stage="contained")
    if len(left) <= FEW_LEFT:  # one group is asked about at once
        targets = [rows.join(targets, _one_group, stage="contained")]
    groups = rows.collect(rows.cross(targets, _contained, _decide, rules, stage="contained"), stage="contained")[0]
    travelled, decided = travel(rows, [one for group in groups for one in group.wide], rules)
    groups += _for_lifts(travelled, rules)
    parts = [rarest]
    for group in rows.collect(rows.cross(groups, _lifts, _lifted, rules, stage="lifts"), stage="lifts")[0]:
        decided.add(group.decided)
        parts.append(group.support)
    return decided, _joined(parts), fetch


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


def _joined(parts: list[Support]) -> Support:
    """Witnesses of all parts, in the order of their points."""
    of = np.concatenate([part.of for part in parts])
    order = np.argsort(of)
    F = sp.csr_array(sp.vstack([part.F for part in parts]))
    return Support(of[order], sp.csr_array(F[order]), np.concatenate([part.lift for part in parts])[order])


def _rows(block: Any, piece: tuple[int, int, IntArray], holders: IntArray) -> Rows:
    number, first, rows = piece
    U = take_rows(unit_points_sparse(block), rows)
    ptr, idx = U.indptr.astype(np.int64), U.indices.astype(np.int32, copy=False)
    rarest = np.empty(len(rows), np.int64)
    _find_rarest(ptr, idx, holders, rarest)
    chosen = idx[rarest]
    asked_ptr = np.concatenate([[0], np.cumsum(np.bincount(chosen, minlength=U.shape[1]))]).astype(np.int32)
    return Rows(number, first + rows, ptr, idx, U.data, rarest, asked_ptr, np.argsort(chosen, kind="stable").astype(np.int32))


@kernel
def _find_rarest(ptr, idx, holders, rarest):  # type: ignore[no-untyped-def]
    """The place of the coordinate of each point that the fewest points have, the first of several."""
    for i in range(len(rarest)):
        best = ptr[i]
        for t in range(ptr[i] + 1, ptr[i + 1]):
            if holders[idx[t]] < holders[idx[best]]:
                best = t
        rarest[i] = best


def _by_rarest(rows: Held, rules: Rules) -> tuple[Support, list[tuple[int, IntArray]]]:
    """Witnesses of the points whose rarest coordinate proves them, and the places of the others, in groups, by block."""
    n_blocks = rows.n_blocks
    which = [(a, b) for a in range(n_blocks) for b in range(a, n_blocks)]
    tiles = rows.tiles(_tile, which, rules, stage="tiles")
    own = [found for _, _, found in tiles if found is not None]
    lifts = [np.full(len(index), LEAST_LIFT) for index, *_ in own]
    for (a, b), (first, second, _) in zip(which, tiles, strict=True):
        np.maximum(lifts[a], first, out=lifts[a])
        np.maximum(lifts[b], second, out=lifts[b])
    index, at, value, size = (np.concatenate(some) for some in zip(*own, strict=True))
    lift = np.concatenate(lifts)
    finite = np.where(np.isfinite(lift), lift, 0.0)  # infinite where a point inside the support has the coordinate, too
    proven = np.isfinite(lift) & (value > CLEAR * rules.tol * np.hypot(1.0, finite * np.sqrt(rules.dim - size)))
    F = sp.csr_array((np.ones(int(proven.sum())), at[proven], np.arange(int(proven.sum()) + 1)), shape=(int(proven.sum()), rules.dim))
    left = []
    starts = np.concatenate([[0], np.cumsum([len(some) for some in lifts])])
    for k in range(n_blocks):
        some = np.flatnonzero(~proven[starts[k] : starts[k + 1]])
        pieces = max(1, min(len(some) // SMALLEST_GROUP, 4))
        left += [(k, piece) for piece in np.array_split(some, pieces)] if len(some) else []
    return Support(index[proven], F, lift[proven]), left


class Own(NamedTuple):
    """Number, rarest coordinate, value there and number of entries of each point of a block."""

    ids: IntArray
    at: AnyArray
    value: FloatArray
    size: IntArray


def _tile(a: Rows, b: Rows, rules: Rules) -> tuple[FloatArray, FloatArray, Own | None]:
    """The lifts that points of ``a`` need because of points of ``b``, and the other way round; infinite where a point is contained.

    The tile of a block with itself also has what is known of each point.
    """
    first, second = np.zeros(len(a.ids)), np.zeros(len(b.ids))
    same = a.number == b.number
    _needed_lifts(a, b, same, rules.rounding, first)
    if same:
        return first, second, Own(a.ids, a.idx[a.rarest], a.val[a.rarest], np.diff(a.ptr))
    _needed_lifts(b, a, same, rules.rounding, second)
    return first, second, None


@kernel
def _needed_lifts(mine, others, same, rounding, needed):  # type: ignore[no-untyped-def]
    """Raise ``needed`` to the lift that makes the witness of each of ``mine``, 1 at its rarest coordinate, negative on all ``others``."""
    ptr, idx = mine.ptr, mine.idx
    for j in range(len(others.ids)):
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
                lift = np.inf if outside <= rounding else (LIFT_MARGIN * value + rounding) / (outside - rounding)
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
    """Points of a block whose supports lie inside those of targets; targets with too many are not served."""

    ids: IntArray
    U: Sparse
    wide: AnyArray  # (targets,)


def _contained(group: Functionals, rows: Rows, rules: Rules) -> Contained:
    counts = np.diff(rows.ptr)
    wide, used = np.zeros(len(group.ids), bool), np.zeros(len(rows.ids), bool)
    for i in range(len(group.ids)):
        inside = np.zeros(len(rows.ids), bool)
        _mark_inside(rows, _place(group.U, i), inside)
        inside &= rows.ids != group.ids[i]
        wide[i] = counts[inside].sum() > rules.most_entries
        if not wide[i]:
            used |= inside
    return Contained(rows.ids[used], sp.csr_array(rows.matrix()[used]), wide)


def _place(U: Sparse, i: int) -> AnyArray:
    """For each coordinate its place in the support of row ``i``, -1 off it."""
    place = np.full(U.shape[1], -1, np.int32)
    support = U.indices[U.indptr[i] : U.indptr[i + 1]]
    place[support] = np.arange(len(support))
    return place


@kernel
def _mark_inside(rows, place, inside):  # type: ignore[no-untyped-def]
    """Mark the points whose supports lie inside that of the target."""
    for j in range(len(inside)):
        inside[j] = True
        for t in range(rows.ptr[j], rows.ptr[j + 1]):
            if place[rows.idx[t]] < 0:
                inside[j] = False
                break


def _ones(U: Sparse) -> Sparse:
    return sp.csr_array((np.ones(U.nnz), U.indices, U.indptr), shape=U.shape)


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
        kept, F = solve_over_contained(U, numbers, first, np.isin(numbers, rules.left), rules.tol, found)
    return Functionals(numbers[kept], sp.csr_array(U[kept]), F, found, [(int(group.ids[i]), group.U[[i]]) for i in np.flatnonzero(wide)])


class Lift(NamedTuple):
    """What the points of a block ask of the functionals of a group."""

    needed: FloatArray
    blocked: AnyArray  # (targets,): a point inside the support has a positive value


def _lifts(group: Functionals, rows: Rows, rules: Rules) -> Lift:
    """The lift that each functional needs because of the points of a block that share a coordinate with it."""
    n_targets = len(group.ids)
    needed, blocked = np.zeros(n_targets), np.zeros(n_targets, bool)
    if n_targets <= FEW_TARGETS:
        for i in range(n_targets):
            f = np.zeros(rules.dim)
            f[group.F.indices[group.F.indptr[i] : group.F.indptr[i + 1]]] = group.F.data[group.F.indptr[i] : group.F.indptr[i + 1]]
            own = np.searchsorted(rows.ids, group.ids[i])
            own = own if own < len(rows.ids) and rows.ids[own] == group.ids[i] else -1
            needed[i], blocked[i] = _lift_of(rows, _place(group.U, i), f, own, rules.rounding)
        return Lift(needed, blocked)
    U = rows.matrix()
    value, within = (sp.csr_array((U @ sp.csr_array(some.T)).T) for some in (group.F, _ones(group.U)))  # U itself is not transposed
    sums = np.asarray(U.sum(axis=1)).ravel()
    target, point = value.nonzero()
    high = _at(value, target, point)
    keep = (high > -rules.rounding) & (rows.ids[point] != group.ids[target])
    target, point, high = target[keep], point[keep], np.maximum(high[keep], 0.0)
    outside = sums[point] - _at(within, target, point)
    is_inside = outside <= rules.rounding
    blocked[target[is_inside & (high > 4 * rules.rounding)]] = True
    free = ~is_inside
    np.maximum.at(needed, target[free], (LIFT_MARGIN * high[free] + rules.rounding) / (outside[free] - rules.rounding))
    return Lift(needed, blocked)


@kernel
def _lift_of(rows, place, f, own, rounding):  # type: ignore[no-untyped-def]
    """The lift that one functional needs, and whether a point inside the support has a positive value."""
    needed, blocked = 0.0, False
    for j in range(len(rows.ids)):
        value, outside = 0.0, 0.0
        for t in range(rows.ptr[j], rows.ptr[j + 1]):
            if place[rows.idx[t]] < 0:
                outside += rows.val[t]
            else:
                value += f[rows.idx[t]] * rows.val[t]
        if j == own or value <= -rounding:
            continue
        if outside > rounding:
            needed = max(needed, (LIFT_MARGIN * max(value, 0.0) + rounding) / (outside - rounding))
        elif value > 4.0 * rounding:
            blocked = True
    return needed, blocked


def _at(M: Sparse, rows: IntArray, columns: IntArray) -> FloatArray:
    """These entries."""
    return np.asarray(M[rows, columns]).ravel() if len(rows) else np.zeros(0)


@dataclass(frozen=True)
class Lifted:
    """What a group came to."""

    support: Support
    decided: Decided


def _lifted(group: Functionals, lifts: list[Lift], rules: Rules) -> Lifted:
    lift = np.maximum(np.max([some.needed for some in lifts], axis=0), LEAST_LIFT) if len(group.ids) else np.zeros(0)
    blocked = np.any([some.blocked for some in lifts], axis=0)
    # values on contained points are at most 0 up to rounding, also that of a checker who multiplies by the lift: go below it
    F = group.F.copy()
    F.data -= np.repeat(4 * rules.rounding * (row_norms(F) + lift + 1), np.diff(F.indptr))
    own = np.asarray(F.multiply(group.U).sum(axis=1)).ravel()
    distance = own / np.sqrt(row_norms(F) ** 2 + lift**2 * (rules.dim - np.diff(group.U.indptr)))
    proven = ~blocked & (distance > CLEAR * rules.tol)
    decided = replace(group.decided)
    decided.doubtful = [*decided.doubtful, *group.ids[~proven].tolist()]
    return Lifted(Support(group.ids[proven], sp.csr_array(F[proven]), lift[proven]), decided)
