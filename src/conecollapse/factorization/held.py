"""Entries of H that are known and do not move: whole components, or a pattern of zeros."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from conecollapse._types import AnyArray, BoolArray


@dataclass(frozen=True)
class Held:
    """``H[known] = values[known]``; every method keeps these entries to the last bit in the
    precision of the table."""

    known: BoolArray  # (r, n_features)
    values: AnyArray  # (r, n_features): zero where nothing is known

    @cached_property
    def free(self) -> BoolArray:
        """Which entries may move, in rows for the features, (n_features, r)."""
        return np.ascontiguousarray(~self.known.T)

    @cached_property
    def fixed(self) -> AnyArray:
        """The known values in rows for the features."""
        return np.ascontiguousarray(self.values.T)

    @property
    def n_components(self) -> int:
        """How many components are known as a whole: these are the first."""
        return int(np.argmin(np.append(self.known.all(axis=1), False)))

    def rows(self, features: slice) -> tuple[BoolArray, AnyArray]:
        """Which entries of these features may move, and the values of the others, zero for those
        that may."""
        return self.free[features], self.fixed[features]

    def put(self, H: AnyArray) -> AnyArray:
        """``H`` with what is known."""
        return np.where(self.known, self.values.astype(H.dtype, copy=False), H)
