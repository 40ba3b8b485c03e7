"""What the reader of one format returns: numbers and names as they are in the source, not yet
transposed or checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from conecollapse._types import AnyArray
from conecollapse.io.layout import Layout


@dataclass(frozen=True, eq=False)
class Matrix:
    """The numbers of a source with the names of its rows and columns."""

    values: Any  # two-dimensional array or sparse array
    row_names: AnyArray | None = None
    column_names: AnyArray | None = None
    row_word: str = ""  # what the source calls its rows, such as the heading of a column of names
    features_in: str = ""  # "rows" or "columns" when the format itself says so
    because: str = ""  # how it says so
    layout: Layout | None = None  # of text and frames: what was taken as heading and names
    marked: AnyArray | None = None  # which features the source marks as highly variable
    axis: AnyArray | None = None  # where along the columns was measured, such as wavelengths
    may_clip: bool = False  # whether the caller can ask for negative values to be set to zero
