"""How points are scaled before some of them are chosen as rays: their directions stay, and with
them the cone."""

from __future__ import annotations

import numpy as np

from conecollapse._errors import InvalidInputError
from conecollapse._linalg import row_lengths, scaled_rows
from conecollapse._types import Points

SCALINGS = ("raw", "sum", "length")


def scaled_points(points: Points, scaling: str) -> Points:
    """Rows in float64: as they are ("raw", in units of the longest), scaled to sum one ("sum") or
    to unit length ("length").

    Zero rows stay zero. In units of the longest, the largest squares neither overflow nor vanish.
    """
    if scaling not in SCALINGS:
        raise InvalidInputError(f"scaling must be one of {', '.join(SCALINGS)}; got {scaling!r}.")
    lengths = row_lengths(points)
    longest = float(lengths.max(initial=0.0))
    if scaling == "raw":
        size = np.where(lengths > 0, longest, 0.0)
    else:
        size = (
            np.asarray(points.sum(axis=1, dtype=np.float64)).ravel()
            if scaling == "sum"
            else lengths
        )
    return scaled_rows(points.astype(np.float64, copy=False), 1 / np.where(size > 0, size, np.inf))
