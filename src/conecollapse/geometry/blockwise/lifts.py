"""The last step for sparse points in blocks: functionals on the supports of targets, lifted over
the points of all blocks.

A functional is at most 0 on the points inside the support of its target. On the coordinates off the
support it gets the value ``-lift``, large enough that it is negative on every other point, too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy.sparse as sp

from conecollapse._kernels import kernel
from conecollapse._linalg import row_norms
from conecollapse._types import AnyArray, FloatArray, IntArray, Sparse
from conecollapse.certificates import Support
from conecollapse.geometry.blockwise.decided import Decided
from conecollapse.geometry.certified.witness import CLEAR, LEAST_LIFT, LIFT_MARGIN

if TYPE_CHECKING:
    from conecollapse.geometry.blockwise.sparse import Functionals, Rows, Rules

# share of the coordinates from which a functional is looked at by itself, as nearly every point has
# some of them
WIDE = 0.1


def place_of(U: Sparse, i: int) -> AnyArray:
    """For each coordinate its place in the support of row ``i``, -1 off it."""
    place = np.full(U.shape[1], -1, np.int32)
    support = U.indices[U.indptr[i] : U.indptr[i + 1]]
    place[support] = np.arange(len(support))
    return place


class Lift(NamedTuple):
    """What the points of a block ask of the functionals of a group."""

    needed: FloatArray
    blocked: AnyArray  # (targets,): a point inside the support has a positive value


class Asking(NamedTuple):
    """Functionals by coordinate: ``target[ptr[d]:ptr[d + 1]]`` have d in their supports, with
    values ``f``."""

    ptr: AnyArray
    target: AnyArray
    f: FloatArray


def _asking(U: Sparse, F: Sparse) -> Asking:
    f = np.zeros(U.nnz)
    f[np.searchsorted(_places(U), _places(F))] = F.data
    columns = sp.csc_array(sp.csr_array((f, U.indices, U.indptr), shape=U.shape))
    return Asking(columns.indptr, columns.indices, columns.data)


def _places(M: Sparse) -> IntArray:
    """Of the entries, counted row by row."""
    return np.repeat(np.arange(M.shape[0]) * M.shape[1], np.diff(M.indptr)) + M.indices


def lifts(group: Functionals, rows: Rows, rules: Rules) -> Lift:
    """The lift that each functional needs because of the points of a block that share a coordinate
    with it."""
    needed, blocked = np.zeros(len(group.ids)), np.zeros(len(group.ids), bool)
    own = np.searchsorted(rows.ids, group.ids)
    inside = own < len(rows.ids)
    inside[inside] = rows.ids[own[inside]] == group.ids[inside]
    own[~inside] = -1
    sizes = np.diff(group.U.indptr)
    for i in np.flatnonzero(sizes > WIDE * rules.dim):
        f, some = np.zeros(rules.dim), slice(group.F.indptr[i], group.F.indptr[i + 1])
        f[group.F.indices[some]] = group.F.data[some]
        needed[i], blocked[i] = _lift_of(rows, place_of(group.U, int(i)), f, own[i], rules.rounding)
    narrow = np.flatnonzero(sizes <= WIDE * rules.dim)
    if len(narrow):
        lift = Lift(needed[narrow], blocked[narrow])
        _raise_lifts(
            rows, _asking(group.U[narrow], group.F[narrow]), own[narrow], rules.rounding, lift
        )
        needed[narrow], blocked[narrow] = lift
    return Lift(needed, blocked)


@kernel
def _lift_of(rows, place, f, own, rounding):  # type: ignore[no-untyped-def]
    """The lift that one functional needs, and whether a point inside the support has a positive
    value."""
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


@kernel
def _raise_lifts(rows, asking, own, rounding, lift):  # type: ignore[no-untyped-def]
    """`_lift_of` for many functionals: each point meets only those that have a coordinate of it."""
    needed, blocked = lift
    n_targets = len(needed)
    value, inside = np.zeros(n_targets), np.zeros(n_targets)
    met, is_met = np.empty(n_targets, np.int64), np.zeros(n_targets, np.bool_)
    for j in range(len(rows.ids)):
        n_met, total = 0, 0.0
        for t in range(rows.ptr[j], rows.ptr[j + 1]):
            total += rows.val[t]
            for p in range(asking.ptr[rows.idx[t]], asking.ptr[rows.idx[t] + 1]):
                i = asking.target[p]
                if not is_met[i]:
                    met[n_met], is_met[i] = i, True
                    n_met += 1
                value[i] += asking.f[p] * rows.val[t]
                inside[i] += rows.val[t]
        for q in range(n_met):
            i = met[q]
            outside = total - inside[i]
            if own[i] != j and value[i] > -rounding:
                if outside > rounding:
                    needed[i] = max(
                        needed[i],
                        (LIFT_MARGIN * max(value[i], 0.0) + rounding) / (outside - rounding),
                    )
                elif value[i] > 4.0 * rounding:
                    blocked[i] = True
            value[i], inside[i], is_met[i] = 0.0, 0.0, False


@dataclass(frozen=True)
class Lifted:
    """What a group came to."""

    support: Support
    decided: Decided


def lifted(group: Functionals, found: list[Lift], rules: Rules) -> Lifted:
    lift = (
        np.maximum(np.max([some.needed for some in found], axis=0), LEAST_LIFT)
        if len(group.ids)
        else np.zeros(0)
    )
    blocked = np.any([some.blocked for some in found], axis=0)
    # values on contained points are at most 0 up to rounding, also that of a checker who multiplies
    # by the lift: go below it
    F = group.F.copy()
    F.data -= np.repeat(4 * rules.rounding * (row_norms(F) + lift + 1), np.diff(F.indptr))
    own = np.asarray(F.multiply(group.U).sum(axis=1)).ravel()
    distance = own / np.sqrt(row_norms(F) ** 2 + lift**2 * (rules.dim - np.diff(group.U.indptr)))
    proven = ~blocked & (distance > CLEAR * rules.tol)
    decided = replace(group.decided)
    decided.doubtful = [*decided.doubtful, *group.ids[~proven].tolist()]
    return Lifted(Support(group.ids[proven], sp.csr_array(F[proven]), lift[proven]), decided)
