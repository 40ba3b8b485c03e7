r"""About the nearest neighbours of many samples: only samples in nearby cells are compared.

k-means on some of the samples divides all n of them into about :math:`\sqrt n` *cells*. The
neighbours of a sample are sought in its own cell and in the q - 1 cells whose centres are nearest
to that cell's centre, so that the comparisons of a cell with a cell are one product of two matrices
in float32. The few best of each sample are then compared again, by differences in the precision of
the samples.

*Recall*, the share of the true neighbours that are found, is q's only task, and q is chosen for it:
500 random samples are compared with all others, and q is the smallest number of cells that hold at
least 97 % of their true neighbours. So recall is the same for all data, and what differs is the
time: it is about :math:`n^{1.5} q` products of samples, and at worst, where near samples lie in all
cells, that of exact neighbours.

Everything random has a fixed seed and no sum depends on who was first: the neighbours are a
function of the samples alone, for any number of threads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from conecollapse._kernels import kernel
from conecollapse._threads import for_ranges, serial_blas
from conecollapse._types import AnyArray, FloatArray, IntArray
from conecollapse.affinity.exact import nearest_of

SMALLEST_CELL = 256  # samples of the mean cell; with fewer, products are too small to be fast
# samples for each centre of the k-means that makes the cells, and its iterations
PER_CENTRE, ROUNDS = 32, 6
# share of the true neighbours of so many random samples that must be found
RECALL, ASKED = 0.97, 500
SPARE = 3  # candidates that are compared again beyond the k + 1 that are needed
# of a product, at most: 64 MiB, also where many samples are alike and one cell holds them
ROWS, COLUMNS = 2048, 8192


class Cells(NamedTuple):
    """Samples in the order of their cells."""

    rows: AnyArray  # (n, m) float32
    halves: AnyArray  # (n,) float32, half the squared lengths
    order: IntArray  # (n,) which sample each row is
    bounds: IntArray  # (p + 1,) where the cells begin and end
    near: IntArray  # (p, p) for each cell all of them, nearest centres first


@dataclass(frozen=True)
class Found:
    """The k nearest others of each sample, as far as they were found, nearest first."""

    index: IntArray  # (n, k)
    distance: FloatArray  # (n, k)
    n_probed: int  # q
    n_cells: int


def cell_neighbors(samples: AnyArray, k: int, truth: tuple[IntArray, IntArray]) -> Found:
    """About the k nearest others of each sample; ``truth`` are some samples and their true
    neighbours, from which q is chosen."""
    n = samples.shape[0]
    middle, unit = samples.mean(axis=0), float(max(samples.max(), -samples.min())) or 1.0
    # which has fewer digits, and a smaller range
    cells = _cells(np.ascontiguousarray((samples - middle) / unit, np.float32))
    q = _needed(cells, *truth)
    kept = min(k + 1 + SPARE, n)
    scores, best = np.full((n, kept), -np.inf, np.float32), np.full((n, kept), -1, np.int64)

    def work(start: int, stop: int) -> None:
        for cell in range(start, stop):
            _search_cell(cells, cell, q, scores, best)

    with serial_blas():
        for_ranges(work, len(cells.bounds) - 1)
    by_sample = np.empty_like(best)
    by_sample[cells.order] = np.where(best >= 0, cells.order[best], -1)
    index, distance = np.empty((n, k), np.int64), np.empty((n, k))

    def compare(start: int, stop: int) -> None:
        rows = np.arange(start, stop)
        index[rows], distance[rows] = nearest_of(samples, rows, by_sample[rows], k)

    for_ranges(compare, n, smallest=ROWS)
    return Found(index, distance, q, len(cells.bounds) - 1)


def random_samples(n: int) -> IntArray:
    """The samples from which q is chosen."""
    return np.sort(np.random.default_rng(0).choice(n, min(n, ASKED), replace=False))


def _cells(Y: AnyArray) -> Cells:
    n = len(Y)
    p = max(1, int(n / max(SMALLEST_CELL, np.sqrt(n))))
    chosen = np.random.default_rng(0).choice(n, min(n, PER_CENTRE * p), replace=False)
    some = Y[np.sort(chosen)]
    centres = Y[chosen[:p]]
    for _ in range(ROUNDS):
        cell = _nearest_centre(some, centres)
        counts = np.bincount(cell, minlength=p)
        by_cell = np.argsort(cell, kind="stable")
        filled = np.flatnonzero(counts)
        sums = np.add.reduceat(
            some[by_cell],
            np.concatenate([[0], np.cumsum(counts[filled])[:-1]]),
            axis=0,
            dtype=np.float64,
        )
        centres = centres.copy()
        centres[filled] = (sums / counts[filled, None]).astype(np.float32)
    cell = _nearest_centre(Y, centres)
    order = np.argsort(cell, kind="stable")
    rows = Y[order]
    bounds = np.concatenate([[0], np.cumsum(np.bincount(cell, minlength=p))])
    apart = np.square(centres).sum(axis=1) / 2 - centres @ centres.T
    np.fill_diagonal(apart, -np.inf)  # its own cell first
    halves = np.einsum("ij,ij->i", rows, rows) / np.float32(2)
    return Cells(rows, halves, order, bounds, np.argsort(apart, axis=1, kind="stable"))


def _nearest_centre(Y: AnyArray, centres: AnyArray) -> IntArray:
    halves = np.square(centres).sum(axis=1) / 2
    cell = np.empty(len(Y), np.int64)

    def work(start: int, stop: int) -> None:
        for a in range(start, stop, ROWS):
            rows = slice(a, min(a + ROWS, stop))
            cell[rows] = (halves - Y[rows] @ centres.T).argmin(axis=1)

    with serial_blas():
        for_ranges(work, len(Y), smallest=ROWS)
    return cell


def _needed(cells: Cells, asked: IntArray, truth: IntArray) -> int:
    """How many of the nearest cells hold the wanted share of these true neighbours."""
    place = np.empty(len(cells.order), np.int64)
    place[cells.order] = np.arange(len(cells.order))
    cell = np.searchsorted(cells.bounds, place, side="right") - 1
    rank = np.argsort(cells.near, axis=1)
    ranks = np.sort(rank[cell[asked][:, None], cell[truth]].ravel())
    return int(ranks[int(np.ceil(RECALL * len(ranks))) - 1]) + 1


def _search_cell(cells: Cells, cell: int, q: int, scores: AnyArray, best: IntArray) -> None:
    """The best of the q nearest cells for each row of a cell."""
    for a in range(cells.bounds[cell], cells.bounds[cell + 1], ROWS):
        b = min(a + ROWS, int(cells.bounds[cell + 1]))
        for other in cells.near[cell, :q]:
            for c in range(cells.bounds[other], cells.bounds[other + 1], COLUMNS):
                d = min(c + COLUMNS, int(cells.bounds[other + 1]))
                _keep_best(
                    cells.rows[a:b] @ cells.rows[c:d].T,
                    cells.halves[c:d],
                    c,
                    scores[a:b],
                    best[a:b],
                )


@kernel()
def _keep_best(products, halves, first, scores, best):  # type: ignore[no-untyped-def]
    """Insert columns with large ``product - half`` into each row's list of the best, largest first;
    columns are numbered from ``first``."""
    kept = scores.shape[1]
    for i in range(products.shape[0]):
        least = scores[i, kept - 1]
        for j in range(products.shape[1]):
            score = products[i, j] - halves[j]
            if score > least:
                t = kept - 1
                while t > 0 and scores[i, t - 1] < score:
                    scores[i, t] = scores[i, t - 1]
                    best[i, t] = best[i, t - 1]
                    t -= 1
                scores[i, t] = score
                best[i, t] = first + j
                least = scores[i, kept - 1]
