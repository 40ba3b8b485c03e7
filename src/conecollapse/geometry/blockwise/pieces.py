"""Blocks of about equal work, cut anew from those of the table.

Tables are divided by lines, but work follows entries: where words are sorted by frequency, the
first of eight blocks has half of them, and the worker that has it keeps all others waiting. And
blocks may be so small that a task costs more than its work.
"""

from __future__ import annotations

import numpy as np

from conecollapse._types import IntArray
from conecollapse.geometry.blockwise.measure import SMALLEST_SHARE, Measured
from conecollapse.tables import BlockedTable

UNEVEN = 1.25  # times the average: blocks with more entries are cut anew
# products of entries (dense), or entries (sparse), that are worth a task: about 20 ms
PAIRS_OF_A_TASK, ENTRIES_OF_A_TASK = 2**30, 2**17
# bytes beside three blocks up to which a worker holds all points: two thirds of what a worker may
# need in all
COPIES = 2**26
# bytes of an entry in a block, and of its copy, its value in a unit point and what is made of them
SPARSE_ENTRY, SPARSE_COPY = 12, 24
# copy, unit point, two sets of round coordinates, and what is searched
DENSE_ENTRY, DENSE_COPY = 8, 40
MOST_FOR_A_WORKER = 2  # blocks for each worker that balance well: every pair of them is a task


def is_worth_copies(table: BlockedTable, entries: int, *, is_sparse: bool) -> bool:
    """Whether every worker may hold all points: what it holds then may be as much as three blocks
    and `COPIES`.

    Copies move less than pairs of blocks do, since a worker that compares pairs sees most blocks,
    some of them twice, and they save rounds and tasks. So memory alone decides.
    """
    block = (SPARSE_ENTRY if is_sparse else DENSE_ENTRY) * entries / table.n_blocks
    return (
        table.together > 0
        and (SPARSE_COPY if is_sparse else DENSE_COPY) * entries <= 3 * block + COPIES
    )


def evened(table: BlockedTable, measured: Measured) -> BlockedTable:
    """The table in blocks with about equally many entries: no more than it had on average, or than
    `SMALLEST_SHARE`."""
    n, m = table.shape
    weights = np.full(m, n) if measured.lengths is None else measured.lengths
    total = int(weights.sum())
    largest = max(-(-total // table.n_blocks), SMALLEST_SHARE)
    tasks = total * m // PAIRS_OF_A_TASK if measured.lengths is None else total // ENTRIES_OF_A_TASK
    workers = table.parallel
    # k blocks have about k^2 / 2 pairs
    wanted = min(max(workers, int(np.sqrt(2 * tasks))), MOST_FOR_A_WORKER * workers)
    count = min(max(-(-total // largest), wanted, 2), table.n_blocks)
    table.block_entries = int(np.add.reduceat(weights, table.bounds[:-1]).max())
    if count == table.n_blocks and table.block_entries <= UNEVEN * total / count:
        return table
    return table.cut_at(even_bounds(weights, count))


def even_bounds(weights: IntArray, count: int) -> IntArray:
    """Bounds of at most ``count`` runs of about equal weight, each of at least one point."""
    until = np.cumsum(weights)
    inner = np.searchsorted(until, until[-1] * np.arange(1, count) / count) + 1
    return np.unique(np.concatenate([[0], inner[inner < len(weights)], [len(weights)]]))
