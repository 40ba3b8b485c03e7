"""Blocks of about equal work, cut anew from those of the table.

Tables are divided by lines, but work follows entries: where words are sorted by frequency, the first of eight blocks has half of them, and
the worker that has it keeps all others waiting. And blocks may be so small that a task costs more than its work.
"""

from __future__ import annotations

import numpy as np

from conecollapse._types import IntArray
from conecollapse.geometry.blockwise.measure import SMALLEST_SHARE, Measured
from conecollapse.tables import BlockedTable, blocked

UNEVEN = 1.25  # times the average: blocks with more entries are cut anew
PAIRS_OF_A_TASK, ENTRIES_OF_A_TASK = 2**30, 2**17  # products of entries (dense), or entries (sparse), that are worth a task: about 20 ms
MOST_FOR_A_WORKER = 2  # blocks for each worker that balance well: every pair of them is a task


def evened(table: BlockedTable, measured: Measured) -> BlockedTable:
    """The table in blocks with about equally many entries: no more than it had on average, or than `SMALLEST_SHARE`."""
    n, m = table.shape
    weights = np.full(m, n) if measured.lengths is None else measured.lengths
    total = int(weights.sum())
    largest = max(-(-total // table.n_blocks), SMALLEST_SHARE)
    tasks = total * m // PAIRS_OF_A_TASK if measured.lengths is None else total // ENTRIES_OF_A_TASK
    workers = table.parallel
    wanted = min(max(workers, int(np.sqrt(2 * tasks))), MOST_FOR_A_WORKER * workers)  # k blocks have about k^2 / 2 pairs
    if measured.lengths is None and total <= blocked.SMALL:  # pieces of work have several pairs then, and share these evenly
        wanted = workers
    count = min(max(-(-total // largest), wanted, 2), table.n_blocks)
    table.entries, table.block_entries = total, int(np.add.reduceat(weights, table.bounds[:-1]).max())
    if count == table.n_blocks and table.block_entries <= UNEVEN * total / count:
        return table
    return table.cut_at(even_bounds(weights, count))


def even_bounds(weights: IntArray, count: int) -> IntArray:
    """Bounds of at most ``count`` runs of about equal weight, each of at least one point."""
    until = np.cumsum(weights)
    inner = np.searchsorted(until, until[-1] * np.arange(1, count) / count) + 1
    return np.unique(np.concatenate([[0], inner[inner < len(weights)], [len(weights)]]))
