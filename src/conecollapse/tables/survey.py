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
from conecollapse._types import AnyArray, BoolArray, FloatArray, Points
from conecollapse.tables.in_memory import is_rounded


@dataclass(frozen=True)
class BlockSurvey:
    """Of one block: the largest entry of each column, squared lengths of the columns in units of
    that, which rows hold anything, how many entries are not zero; whether it is a sparse array, and
    whether it may carry the rounding of float32."""

    peaks: FloatArray
    squares: FloatArray
    filled: BoolArray
    n_entries: int
    is_sparse: bool
    is_rounded: bool


def survey_block(block: Points, at: tuple[int, int], label: str) -> BlockSurvey:
    """Survey a block that begins at row and column ``at`` of the table; refuse it, by its
    ``label``, if an entry cannot be used."""
    if 0 in block.shape:
        raise InvalidInputError(
            f"{label} of X is empty, of shape {block.shape}; leave such blocks out (in Dask:"
            " rechunk)."
        )
    if block.dtype.kind not in "fiu":
        block = block.astype(np.float64)
    width = block.shape[1]
    check_block(block, at, label)
    if sp.issparse(block):
        data, columns = block.data.astype(np.float64), block.indices
        peaks = np.zeros(width)
        np.maximum.at(peaks, columns, data)
        squares = np.bincount(
            columns, weights=np.square(data / _or_one(peaks)[columns]), minlength=width
        ).astype(np.float64)
        filled, count = np.diff(block.indptr) > 0, block.nnz
        return BlockSurvey(peaks, squares, filled, count, True, is_rounded(block.data))
    peaks = block.max(axis=0).astype(np.float64)
    squares, units = np.zeros(width), _or_one(peaks)
    for rows in np.array_split(block, max(1, block.size // 2**20)):
        scaled = rows / units
        squares += np.einsum("ij,ij->j", scaled, scaled)
    filled, count = block.any(axis=1), int(np.count_nonzero(block))
    return BlockSurvey(peaks, squares, filled, count, False, is_rounded(block))


def _or_one(peaks: FloatArray) -> FloatArray:
    """What to divide by: 1 where there is nothing."""
    return np.where(peaks > 0, peaks, 1.0)


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


@dataclass(frozen=True)
class Survey:
    """Of the whole table."""

    peaks: FloatArray  # (n_features,) largest entries of the columns
    lengths: FloatArray  # (n_features,) of the columns
    filled: BoolArray  # (n_samples,) which samples hold anything
    n_entries: int  # that are not zero
    is_sparse: bool
    is_rounded: bool  # whether entries may carry the rounding of float32

    @classmethod
    def of(cls, grid: list[list[BlockSurvey]]) -> Survey:
        """Put together from a grid of blocks: rows of it are blocks of samples, columns of it
        blocks of features."""
        peaks, lengths = [], []
        for column in zip(*grid, strict=True):
            peak = np.max([block.peaks for block in column], axis=0)
            squares: AnyArray = np.sum(
                [block.squares * (block.peaks / _or_one(peak)) ** 2 for block in column], axis=0
            )
            peaks.append(peak)
            lengths.append(np.sqrt(squares) * peak)
        filled = [np.any([block.filled for block in row], axis=0) for row in grid]
        blocks = [block for row in grid for block in row]
        return cls(
            np.concatenate(peaks),
            np.concatenate(lengths),
            np.concatenate(filled),
            sum(block.n_entries for block in blocks),
            any(block.is_sparse for block in blocks),
            any(block.is_rounded for block in blocks),
        )

    @property
    def peak(self) -> float:
        """The largest entry."""
        return float(self.peaks.max())
