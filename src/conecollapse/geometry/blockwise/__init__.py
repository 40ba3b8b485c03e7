"""The exact cone of many blocks, without any worker ever holding all rays; see `dense`, `sparse` and the page on scaling."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from conecollapse._types import Effort
from conecollapse.geometry.blockwise.decided import certificate
from conecollapse.geometry.blockwise.dense import decide_dense
from conecollapse.geometry.blockwise.dense_together import decide_dense_together
from conecollapse.geometry.blockwise.measure import SMALLEST_SHARE, Measured, leaders, measure_block
from conecollapse.geometry.blockwise.pieces import evened, is_worth_copies
from conecollapse.geometry.blockwise.sparse import decide_sparse
from conecollapse.geometry.blockwise.sparse_together import decide_sparse_together
from conecollapse.geometry.certified import SMALL_WORK
from conecollapse.geometry.certified.support import MOSTLY_FILLED
from conecollapse.geometry.parts import Part
from conecollapse.tables import BlockedTable

HELD_RAYS = 2**24  # entries up to which a cone holds its rays: 128 MiB
HIGHEST_DIMENSION = 4096  # of dense points for which a covariance is made

__all__ = ["HELD_RAYS", "part_blockwise"]


def part_blockwise(table: BlockedTable, tol: float, effort: Effort = "exact") -> Part | None:
    """The part of a table in blocks of features.

    None where it must be merged: the dimension is too high, or points lie so near ``tol`` that they have to be decided one after the other.
    With ``effort="quick"`` only the first product of blocks is spent, and what it does not decide is left open.
    """
    measured = _measured(table)
    if measured is None:
        return None
    as_sparse = table.is_sparse
    if as_sparse and table.shape[0] <= HIGHEST_DIMENSION and measured.entries > MOSTLY_FILLED * table.shape[0] * table.shape[1]:
        as_sparse, measured = False, table.reduce(measure_block, Measured.joined, False, stage="measure")
    copied = is_worth_copies(table, measured)
    if not copied:
        table = evened(table, measured)
    leader, apart = leaders(table, measured.key, measured.filled, tol)
    if (leader == np.arange(len(leader))).sum() == 1:
        return None
    if table.shape[1] * measured.entries <= SMALL_WORK:
        effort = "exact"
    decide: Any = _HOW[as_sparse, copied]
    decided, family, fetch = decide(table, leader, measured, tol, effort)
    if decided.doubtful and effort == "exact":
        return None
    found = certificate(decided, family, leader, table.shape[0], tol, apart)
    if found is None:
        return None
    held = (measured.entries if table.is_sparse else len(found.rays) * table.shape[0]) <= HELD_RAYS
    return Part(found.n_points, fetch(found.rays) if held else None, found)


_HOW = {  # of sparse points or not, that are copied to every worker or not
    (False, False): decide_dense,
    (False, True): decide_dense_together,
    (True, False): decide_sparse,
    (True, True): decide_sparse_together,
}


def _measured(table: BlockedTable) -> Measured | None:
    """The measures of all blocks, as sparse or dense points, in the same pass as the survey if they are small.

    None if dense points have too high a dimension. The survey may find that blocks are sparse although nobody said so.
    """
    guess, dim = table.is_sparse, table.shape[0]
    if (guess or dim <= HIGHEST_DIMENSION) and table.n_blocks * (dim if guess else dim**2) <= SMALLEST_SHARE:
        parts = table.look(measure_block, None, stage="measure")
        if all((part.holders is not None) == table.is_sparse for part in parts):
            return reduce(Measured.joined, parts)
    _ = table.survey
    if not table.is_sparse and dim > HIGHEST_DIMENSION:
        return None
    measured: Measured = table.reduce(measure_block, Measured.joined, table.is_sparse, stage="measure")
    return measured
