"""The cone of a set of points before anything is decided about them.

Points of the same direction are one, and every direction stays among the rays as an open point. The
cone is the same as that of the exact method; which of its rays the others generate is not asked, so
that it costs a few passes over the points. `Cone.prove` goes on from it. A table in blocks has the
same groups of features as in memory, and with them the same rays.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from conecollapse._linalg import take_rows, unit_rows
from conecollapse._types import IntArray, Points
from conecollapse.certificates import Certificate
from conecollapse.geometry.blockwise import HELD_RAYS
from conecollapse.geometry.blockwise.measure import fetch, key_block, leaders_of
from conecollapse.geometry.certified import group
from conecollapse.geometry.cone import Cone
from conecollapse.geometry.streaming import triangular_of_table, with_held_rays
from conecollapse.tables import BlockedTable, Table, as_blocked


def undecided(table: Table, tol: float) -> Cone:
    """The cone of the columns of a checked table with a ray for every direction, all of them open.

    Examples
    --------
    >>> from conecollapse.tables import as_table
    >>> X = np.array([[1.0, 1.0, 0.0, 0.0], [0.0, 1.0, 2.0, 3.0]])
    >>> cone = undecided(as_table(X), 1e-8)
    >>> cone.ray_indices, cone.open_points
    (array([0, 1, 2]), array([0, 1, 2]))
    >>> cone.prove(X.T).ray_indices
    array([0, 2])
    """
    blocked = as_blocked(table)
    if blocked is not None:
        blocked = blocked.oriented()
        return _of_samples(blocked, tol) if blocked.axis == 0 else _of_features(blocked, tol)
    U, leader, apart = _grouped(table.points(), tol)
    certificate = _all_open(leader, U.shape[1], tol, apart)
    return Cone(take_rows(U, certificate.rays), certificate)


def _of_samples(table: BlockedTable, tol: float) -> Cone:
    """Blocks of samples: the features have the distances of the columns of R in ``X = Q R``."""
    _, leader, apart = _grouped(np.ascontiguousarray(triangular_of_table(table).T), tol)
    part = with_held_rays(table, _all_open(leader, table.shape[0], tol, apart))
    return Cone(part.rays, part.whole()[1])


def _of_features(table: BlockedTable, tol: float) -> Cone:
    """Blocks of features: only those that are near each other along a fixed direction leave their
    blocks."""
    key, filled, entries = zip(
        *table.visit(key_block, shared=table.is_sparse, stage="measure"), strict=True
    )
    leader, apart = leaders_of(table, np.concatenate(key), np.concatenate(filled), tol)
    certificate = _all_open(leader, table.shape[0], tol, apart)
    return Cone(fetch(table, certificate.rays) if sum(entries) <= HELD_RAYS else None, certificate)


def _grouped(P: Points, tol: float) -> tuple[Points, IntArray, float]:
    """Points as unit rows, the leader of each group of one direction, and the largest distance of a
    point from its leader."""
    U, lengths = unit_rows(P)
    return U, *group(U, lengths, tol)


def _all_open(leader: IntArray, dim: int, tol: float, apart: float) -> Certificate:
    """The leaders are rays, and nothing is said about any of them."""
    rays = np.flatnonzero(leader == np.arange(len(leader)))
    return Certificate(
        tol=tol,
        residual=apart,
        n_points=len(leader),
        dim=dim,
        rays=rays,
        leader=leader,
        coefficients=sp.csr_array((len(leader), len(rays))),
        rays_only=np.zeros(len(rays), bool),
        separated=rays,
        witnesses=(),
        open=np.ones(len(rays), bool),
    )
