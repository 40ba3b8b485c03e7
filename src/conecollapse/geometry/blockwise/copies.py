"""Points that are small enough to be copied to every worker: what all of them find out first, each
for itself.

Which points are one ray, and where the others are in their blocks, is linear work. It takes every
worker less time than asking a single one, or the client, and waiting for the answer.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np

from conecollapse._types import IntArray
from conecollapse._types import Points as AnyPoints
from conecollapse.certificates import Witnesses
from conecollapse.geometry.blockwise.decided import Decided
from conecollapse.geometry.blockwise.measure import (
    Measured,
    by_block,
    leaders,
    share_of,
    stack,
    unit_rows_of,
)


class Grouped(NamedTuple):
    """Groups of colinear points."""

    leader: IntArray  # (n_points,) of each one's group, -1 for zero points
    apart: float  # the largest distance from a leader
    bounds: IntArray  # numbers of the first points of the blocks, and how many points there are
    places: list[IntArray]  # of the leaders in their blocks

    @classmethod
    def of(
        cls, blocks: list[AnyPoints], measured: Measured, tol: float, *, as_sparse: bool
    ) -> Grouped:
        bounds = np.concatenate([[0], np.cumsum([block.shape[1] for block in blocks])])
        most = share_of(blocks[0].shape[0], int(bounds[-1]), len(blocks))
        fetched = partial(_fetched, blocks, bounds, as_sparse)
        leader, apart = leaders(
            measured.key, measured.filled, blocks[0].shape[0], tol, most, fetched
        )
        return cls(
            leader,
            apart,
            bounds,
            by_block(bounds, np.flatnonzero(leader == np.arange(len(leader)))),
        )

    @property
    def leaders(self) -> IntArray:
        return np.concatenate(
            [first + some for first, some in zip(self.bounds[:-1], self.places, strict=True)]
        )


class Found(NamedTuple):
    """What all workers together found out about the points of a table."""

    leader: IntArray
    apart: float
    decided: Decided
    family: Witnesses
    fetch: Callable[[IntArray], AnyPoints]  # rays as unit rows


def measured_from(parts: list[Measured]) -> Measured:
    """The measures of all blocks as one."""
    return reduce(Measured.joined, parts)


def _fetched(
    blocks: list[AnyPoints], bounds: IntArray, as_sparse: bool, points: IntArray
) -> AnyPoints:
    places = by_block(bounds, points)
    return stack(
        [
            unit_rows_of(block, some, as_sparse)
            for block, some in zip(blocks, places, strict=True)
            if len(some)
        ]
    )


def rows_among(ids: IntArray, U: Any, points: IntArray) -> Any:
    """The rows of ``points``, increasing, where the rows of ``U`` are those of ``ids``."""
    if len(points) == len(ids) and np.array_equal(points, ids):
        return U
    order = np.argsort(ids)
    return U[order[np.searchsorted(ids, points, sorter=order)]]
