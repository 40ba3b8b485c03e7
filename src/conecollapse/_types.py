"""Names for the array types that appear in signatures, and the sizes of what holds a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
AnyArray: TypeAlias = npt.NDArray[Any]
# SciPy's sparse arrays carry no annotations that a checker could follow through products and slices
Sparse: TypeAlias = Any  # a CSR array
Points: TypeAlias = Any  # a dense array or a CSR array, one point in each row

# called as progress(stage, done, total)
Progress: TypeAlias = Callable[[str, int, int], None] | None
# "quick" leaves points open that are not decided soon
Effort: TypeAlias = Literal["exact", "quick"]


class TableSizes:
    """The sizes of a class that holds a table ``X``, samples in rows."""

    X: Points

    @property
    def n_samples(self) -> int:
        return int(self.X.shape[0])

    @property
    def n_features(self) -> int:
        return int(self.X.shape[1])
