"""Entries of H that are fixed: whole components that are known, or a pattern of zeros."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from conecollapse._types import AnyArray, BoolArray


@dataclass(frozen=True)
class Fixed:
    """``H[mask] = values[mask]``; every method keeps these entries to the last bit in the precision
    of the table."""

    mask: BoolArray  # (r, n_features)
    values: AnyArray  # (r, n_features): zero where nothing is fixed

    @cached_property
    def free(self) -> BoolArray:
        """Which entries may move, in rows for the features, (n_features, r)."""
        return np.ascontiguousarray(~self.mask.T)

    @cached_property
    def values_by_feature(self) -> AnyArray:
        """The values in rows for the features."""
        return np.ascontiguousarray(self.values.T)

    @property
    def n_components(self) -> int:
        """How many components are fixed as a whole: these are the first."""
        return int(np.argmin(np.append(self.mask.all(axis=1), False)))

    @property
    def kinds(self) -> AnyArray:
        """A number for each component; those of which the same is fixed share one."""
        patterns = np.where(self.mask, self.values, -1.0)
        return np.asarray(np.unique(patterns, axis=0, return_inverse=True)[1]).ravel()

    def rows(self, features: slice) -> tuple[BoolArray, AnyArray]:
        """Which entries of these features may move, and the values of the others, zero for those
        that may."""
        return self.free[features], self.values_by_feature[features]

    def put(self, H: AnyArray) -> AnyArray:
        """``H`` with the fixed entries."""
        return np.where(self.mask, self.values.astype(H.dtype, copy=False), H)
