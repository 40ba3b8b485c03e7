"""The cone of a set of points before anything is decided about them.

Points of the same direction are one, and every direction stays among the rays as an open point. The
cone is the same as that of the exact method; which of its rays the others generate is not asked, so
that it costs a few passes over the points. `Cone.prove` goes on from it. A table in blocks has the
same groups of features as in memory, and with them the same rays.
"""

from __future__ import annotations

import numpy as np

from conecollapse._linalg import take_rows, unit_rows
from conecollapse._types import IntArray
from conecollapse.certificates import Certificate
from conecollapse.geometry.blocks import HELD_RAYS, fetch, group_features
from conecollapse.geometry.certified import Proof, group
from conecollapse.geometry.cone import Cone
from conecollapse.geometry.streaming import triangular_of_table, with_held_rays
from conecollapse.tables import BlockedTable, Table, as_blocked


def undecided(table: Table, tol: float, held_rays: int = HELD_RAYS) -> Cone:
    """The cone of the columns of a checked table with a ray for every direction, all of them open.

    Of a table in blocks the rays are held if they have at most ``held_rays`` entries.

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
        work = _of_samples if blocked.axis == 0 else _of_features
        return work(blocked, tol, held_rays)
    U, lengths = unit_rows(table.points())
    leader, apart = group(U, lengths, tol)
    certificate = _all_open(leader, apart, U.shape[1], tol)
    return Cone(take_rows(U, certificate.rays), certificate)


def _of_samples(table: BlockedTable, tol: float, held_rays: int) -> Cone:
    """Blocks of samples: the features have the distances of the columns of R in ``X = Q R``."""
    leader, apart = group(*unit_rows(np.ascontiguousarray(triangular_of_table(table).T)), tol)
    part = with_held_rays(table, _all_open(leader, apart, table.shape[0], tol), held_rays)
    return Cone(part.rays, part.whole()[1])


def _of_features(table: BlockedTable, tol: float, held_rays: int) -> Cone:
    """Blocks of features: only those that are near each other along a fixed direction leave their
    blocks."""
    certificate = _all_open(*group_features(table, tol), table.shape[0], tol)
    is_held = table.n_stored <= held_rays
    return Cone(fetch(table, certificate.rays) if is_held else None, certificate)


def _all_open(leader: IntArray, apart: float, dim: int, tol: float) -> Certificate:
    """The leaders are rays, and nothing is said about any of them."""
    leaders = np.flatnonzero(leader == np.arange(len(leader)))
    proof = Proof(np.ones(len(leaders), bool), dim, open=np.arange(len(leaders)))
    return proof.certificate(np.zeros((0, dim)), leaders, leader, apart, tol)
