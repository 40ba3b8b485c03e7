"""The cone on a cluster: rays of each block of features, merged in a tree; or R of each block of samples, stacked in a tree."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from conecollapse._errors import CheckpointError
from conecollapse._types import AnyArray, FloatArray, Points
from conecollapse.distributed.run import compute, n_workers, named, tree
from conecollapse.geometry.cone import Cone, warn_if_too_coarse
from conecollapse.geometry.streaming import MergeStack, Part, cone_of_part, merge_parts, whole, with_held_rays
from conecollapse.geometry.tall import column_units, in_units, stacked, tall_certificate, triangular

if TYPE_CHECKING:
    from conecollapse.distributed.table import DaskTable

NOTHING_SAVED = (
    "The rays of its blocks are lost and nothing was saved; start a cluster and call again. "
    "Cone.from_table(X, checkpoint=folder) keeps them as they come."
)


def merged_cone(table: DaskTable, tol: float, checkpoint: str | PathLike[str] | None) -> Cone:
    """From blocks of features. With a checkpoint the rays are fetched a few blocks at a time and merged here, each merge saved."""
    warn_if_too_coarse(table, tol)
    leaves = named("rays", _rays_of, [(strip, table.dtype, tol) for strip in table.strips])
    if checkpoint is None:
        part: Part = compute([tree("merge", merge_parts, leaves)], "rays and conecollapse-merge", NOTHING_SAVED)[0]
        return whole(part)
    stack = MergeStack(tol, checkpoint)
    done = stack.n_blocks
    if done > len(leaves) or (done and stack.n_points != table.bounds[done]):
        raise CheckpointError(f"the checkpoint holds {stack.n_points} points in {done} blocks, which are not the first of this array.")
    step = 2 * n_workers()
    for first in range(done, len(leaves), step):
        saved = (
            f"The cones of the first {stack.n_blocks} of {len(leaves)} blocks are saved in {str(checkpoint)!r}; "
            "start a cluster and make the same call to go on from there."
        )
        for k, leaf in enumerate(compute(leaves[first : first + step], "rays", saved), start=first):
            stack.push(k, leaf)
    return stack.finish()


def tall_cone(table: DaskTable, tol: float) -> Cone:
    """From blocks of samples of a table with more samples than features."""
    warn_if_too_coarse(table, tol)
    units = column_units(table.survey.peaks)
    leaves = named("qr", _triangular_of, [(strip, units) for strip in table.strips])
    R: FloatArray = compute([tree("qr", stacked, leaves)], "qr", "The factors of its blocks are lost; start a cluster and call again.")[0]
    return with_held_rays(table, tall_certificate(R, table.shape[0], tol))


def _rays_of(block: Points, dtype: Any, tol: float) -> Part:
    points = sp.csr_array(block.T) if sp.issparse(block) else np.ascontiguousarray(block.T)
    return cone_of_part(points.astype(dtype, copy=False), tol)


def _triangular_of(block: AnyArray, units: FloatArray) -> FloatArray:
    return triangular(in_units(block, units))
