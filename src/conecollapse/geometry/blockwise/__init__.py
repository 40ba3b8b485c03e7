"""The exact cone of many blocks, without any worker ever holding all rays; see `dense`, `sparse`
and the page on scaling."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from conecollapse._types import Effort
from conecollapse.geometry.blockwise.copies import Found
from conecollapse.geometry.blockwise.decided import certificate
from conecollapse.geometry.blockwise.dense import decide_dense
from conecollapse.geometry.blockwise.dense_together import decide_dense_together
from conecollapse.geometry.blockwise.measure import (
    SMALLEST_SHARE,
    Measured,
    leaders_of,
    measure_block,
)
from conecollapse.geometry.blockwise.pieces import evened, is_worth_copies
from conecollapse.geometry.blockwise.sparse import decide_sparse
from conecollapse.geometry.blockwise.sparse_together import decide_sparse_together
from conecollapse.geometry.certified import MOSTLY_FILLED
from conecollapse.geometry.parts import Part
from conecollapse.tables import BlockedTable
from conecollapse.tables.blocked import Looked

HELD_RAYS = 2**24  # entries up to which a cone holds its rays: 128 MiB
# points times entries up to which deciding everything takes no longer than another round of tasks
SMALL_WORK = 2**16
HIGHEST_DIMENSION = 4096  # of dense points for which a covariance is made

__all__ = ["HELD_RAYS", "part_blockwise"]


def part_blockwise(table: BlockedTable, tol: float, effort: Effort = "exact") -> Part | None:
    """The part of a table in blocks of features.

    None where it must be merged: the dimension is too high, or points lie so near ``tol`` that they
    have to be decided one after the other. With ``effort="quick"`` only the first product of blocks
    is spent, and what it does not decide is left open.
    """
    n, m = table.shape
    looked = _looked(table)
    if (
        looked is not None
        and not table.is_sparse
        and is_worth_copies(table, n * m, is_sparse=False)
    ):
        # how many entries dense points have is known: the workers go on without us
        asked = _worth(effort, n * m, m)
        found = decide_dense_together(table, looked, tol, asked)
        if found is not None:
            return _part(table, found, n * m, tol, asked)
    looked = _measured(table, looked)
    if looked is None:
        return None
    measured, as_sparse = reduce(Measured.joined, looked.results()), table.is_sparse
    if as_sparse and n <= HIGHEST_DIMENSION and measured.entries > MOSTLY_FILLED * n * m:
        measured, as_sparse = (
            table.reduce(measure_block, Measured.joined, False, stage="measure"),
            False,
        )
        looked = Looked([measured])
    asked = _worth(effort, measured.entries, m)
    if not is_worth_copies(table, measured.entries, is_sparse=as_sparse):
        found = _apart(evened(table, measured), measured, tol, asked, as_sparse=as_sparse)
    elif as_sparse:
        found = decide_sparse_together(table, looked, measured, tol, asked)
    else:
        found = decide_dense_together(table, looked, tol, asked)
    return None if found is None else _part(table, found, measured.entries, tol, asked)


def _worth(effort: Effort, entries: int, n_points: int) -> Effort:
    """Small tables are decided, whatever is asked for."""
    return "exact" if n_points * entries <= SMALL_WORK else effort


def _apart(
    table: BlockedTable, measured: Measured, tol: float, effort: Effort, *, as_sparse: bool
) -> Found | None:
    """Where no worker holds all points; None if there is one ray."""
    leader, apart = leaders_of(table, measured.key, measured.filled, tol)
    if (leader == np.arange(len(leader))).sum() == 1:
        return None
    decide: Any = decide_sparse if as_sparse else decide_dense
    return Found(leader, apart, *decide(table, leader, measured, tol, effort))


def _part(
    table: BlockedTable, found: Found, entries: int, tol: float, effort: Effort
) -> Part | None:
    if found.decided.doubtful and effort == "exact":
        return None
    proof = certificate(found.decided, found.family, found.leader, table.shape[0], tol, found.apart)
    if proof is None:
        return None
    held = (entries if table.is_sparse else len(proof.rays) * table.shape[0]) <= HELD_RAYS
    return Part(proof.n_points, found.fetch(proof.rays) if held else None, proof)


def _looked(table: BlockedTable) -> Looked | None:
    """A look that measures blocks in the same pass as the survey, if what it finds is small."""
    n = table.shape[0]
    if (table.is_sparse or n <= HIGHEST_DIMENSION) and table.n_blocks * (
        n if table.is_sparse else n**2
    ) <= SMALLEST_SHARE:
        return table.look(measure_block, None, stage="measure")
    return None


def _measured(table: BlockedTable, looked: Looked | None) -> Looked | None:
    """The measures of all blocks, as sparse or dense points, from the first look if it has them.

    None if dense points have too high a dimension. The survey may find that blocks are sparse
    although nobody said so.
    """
    if looked is not None and all(
        (part.holders is not None) == table.is_sparse for part in looked.results()
    ):
        return looked
    _ = table.survey
    if not table.is_sparse and table.shape[0] > HIGHEST_DIMENSION:
        return None
    return Looked([table.reduce(measure_block, Measured.joined, table.is_sparse, stage="measure")])
