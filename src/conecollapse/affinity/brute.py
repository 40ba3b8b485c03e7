r"""Exact neighbours of many long samples in float32, by one symmetric product.

The products :math:`x_i \cdot x_j` in float32 say nearly how far samples are apart,

.. math:: |x_i - x_j|^2 = |x_i|^2 + |x_j|^2 - 2\, x_i \cdot x_j ,

and take a quarter of the time of all distances in float64. For each sample the `SPARE` samples
beyond the k nearest ones are kept as candidates, and the distances of the candidates are computed
in float64. A sample whose nearest non-candidate is not clearly further than its k-th neighbour, by
more than rounding can hide, is compared with all samples in float64.
"""

from __future__ import annotations

import numpy as np

from conecollapse._types import AnyArray, BoolArray, FloatArray, IntArray
from conecollapse.affinity.ties import take_nearest

LEAST_WORK = 1e11  # multiplications from which it pays
MOST_SAMPLES = 10_000  # whose products, in float32, take 400 MB
SPARE = 11  # candidates beyond the k nearest
STRIPE = 1024  # samples whose products are formed at once
COMPARED = 256  # samples whose distances are looked at together
PART = 2**22  # entries of differences that are formed at once
MARGIN = 8.0  # times the usual rounding of a product


def pays(samples: AnyArray, k: int) -> bool:
    """Whether these samples are many and long enough."""
    n, m = samples.shape
    return (
        samples.dtype == np.float32
        and n * n * m >= LEAST_WORK
        and n <= MOST_SAMPLES
        and k + SPARE < n
    )


def neighbours(samples: AnyArray, k: int) -> tuple[IntArray, FloatArray, BoolArray]:
    """The k nearest others of each sample with their distances, and which samples are not sure and
    must be compared with all."""
    n, m = samples.shape
    products = _products(samples)
    squares = np.einsum("ij,ij->i", samples, samples, dtype=np.float64)
    rounding = MARGIN * np.sqrt(m) * float(np.finfo(np.float32).eps) * (squares + squares.max())
    index, distance, unsure = np.empty((n, k), np.int64), np.empty((n, k)), np.empty(n, bool)
    step = max(1, PART // ((k + SPARE) * m))
    for a in range(0, n, COMPARED):
        rows = np.arange(a, min(a + COMPARED, n))
        near = squares[rows, None] + squares - 2.0 * products[rows]
        near[np.arange(len(rows)), rows] = np.inf
        order = np.argpartition(near, k + SPARE, axis=1)[:, : k + SPARE + 1]
        values = np.take_along_axis(near, order, axis=1)
        last = values.argmax(axis=1)  # the nearest that is no candidate
        beyond = values.max(axis=1)
        kept = np.ones(order.shape, bool)
        kept[np.arange(len(rows)), last] = False
        candidates = np.sort(order[kept].reshape(len(rows), k + SPARE), axis=1)
        for b in range(0, len(rows), step):
            part = slice(b, min(b + step, len(rows)))
            index[rows[part]], distance[rows[part]] = _nearest_of(
                samples, rows[part], candidates[part], k
            )
        unsure[rows] = beyond - distance[rows, -1] ** 2 <= rounding[rows]
    return index, distance, unsure


def _products(samples: AnyArray) -> AnyArray:
    """All products of two samples; each is computed once."""
    n = len(samples)
    found = np.empty((n, n), samples.dtype)
    for a in range(0, n, STRIPE):
        b = min(a + STRIPE, n)
        found[a:b, a:] = samples[a:b] @ samples[a:].T
        found[b:, a:b] = found[a:b, b:].T
    return found


def _nearest_of(
    samples: AnyArray, rows: IntArray, candidates: IntArray, k: int
) -> tuple[IntArray, FloatArray]:
    """Of the candidates of each row, in their order, the k nearest, by distances in float64."""
    differences = samples[candidates].astype(np.float64) - samples[rows, None]
    place, distance = take_nearest(np.einsum("ijk,ijk->ij", differences, differences), k)
    return np.take_along_axis(candidates, place, axis=1), distance
