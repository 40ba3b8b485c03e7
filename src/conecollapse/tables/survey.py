"""One look at every entry: is the table usable, and the few numbers about it that everything later
needs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from conecollapse._checks import as_points
from conecollapse._errors import InvalidInputError
from conecollapse._linalg import as_dense
from conecollapse._types import AnyArray, BoolArray, FloatArray, Points
from conecollapse.tables.csr import held


@dataclass(frozen=True)
class Survey:
    """Of a table, or of a block of one."""

    peaks: FloatArray  # (n_features,) largest entries of the columns
    lengths: FloatArray  # (n_features,) of the columns
    filled: BoolArray  # (n_samples,) which samples hold anything
    n_entries: int  # that are not zero
    is_sparse: bool
    is_rounded: bool  # whether entries may carry the rounding of float32

    @classmethod
    def of(cls, grid: list[list[Survey]]) -> Survey:
        """Put together from a grid of blocks: rows of it are blocks of samples, columns of it
        blocks of features."""
        columns, blocks = list(zip(*grid, strict=True)), [block for row in grid for block in row]
        return cls(
            np.concatenate([np.max([b.peaks for b in column], axis=0) for column in columns]),
            np.concatenate([np.hypot.reduce([b.lengths for b in column]) for column in columns]),
            np.concatenate([np.any([b.filled for b in row], axis=0) for row in grid]),
            sum(block.n_entries for block in blocks),
            any(block.is_sparse for block in blocks),
            any(block.is_rounded for block in blocks),
        )

    @property
    def peak(self) -> float:
        """The largest entry."""
        return float(self.peaks.max())


def survey_block(block: Points, at: tuple[int, int], label: str) -> Survey:
    """Survey a block that begins at row and column ``at`` of the table; refuse it, by its
    ``label``, if an entry cannot be used."""
    if 0 in block.shape:
        raise InvalidInputError(
            f"{label} of X is empty, of shape {block.shape}; leave such blocks out (in Dask:"
            " rechunk)."
        )
    table = held(check_block(block, at, label))
    peaks = np.asarray(as_dense(table.array.max(axis=0)), np.float64).ravel()
    with np.errstate(over="ignore"):  # squares that leave the range are taken again, scaled
        lengths = table.column_lengths
    filled, count = table.filled, table.n_entries
    return Survey(peaks, lengths, filled, count, table.is_sparse, table.is_rounded)


def check_block(block: Any, at: tuple[int, int], label: str, name: str = "X") -> Points:
    """The block as `as_points` gives it; an error names the block, and the place in the whole
    table."""
    try:
        return as_points(block, name)
    except InvalidInputError as error:
        raise InvalidInputError(f"{label}: {_moved(str(error), at)}") from None


def checked_blocks(blocks: Iterable[Any]) -> Iterator[AnyArray]:
    """Blocks of samples as dense arrays, each checked."""
    if not hasattr(blocks, "__iter__"):
        raise InvalidInputError(
            "the function must give blocks of samples when it is called; it gave"
            f" {type(blocks).__name__}."
        )
    first = 0
    for k, block in enumerate(blocks):
        checked = check_block(block, (first, 0), f"block {k}")
        first += checked.shape[0]
        yield checked.toarray() if sp.issparse(checked) else checked


def _moved(message: str, at: tuple[int, int]) -> str:
    """Row and column named in a message about a block, as they are in the whole table."""
    return re.sub(
        r"row (\d+), column (\d+)",
        lambda m: f"row {int(m[1]) + at[0]}, column {int(m[2]) + at[1]}",
        message,
        count=1,
    )
