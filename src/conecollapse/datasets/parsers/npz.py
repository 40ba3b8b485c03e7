"""The layout ``NAME.npz``: plain arrays, features x samples as in the paper.

Dense sets hold ``X``; text holds the CSC parts ``data``, ``indices``, ``indptr`` and ``shape`` of
its counts. Both hold ``y``; words and classes may be named in ``vocab`` and in ``class_names`` or
``classes``. Other arrays are ignored.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from conecollapse._types import AnyArray, Points, Sparse
from conecollapse.datasets.dataset import Parsed
from conecollapse.io.npz import load_npz


def parse_npz(path: Path, image_shape: tuple[int, int] | None) -> Parsed:
    """Read such a file; ``image_shape`` is the shape of the paper's images, if the set holds
    images."""
    arrays = load_npz(path)
    X = _unpack(arrays)
    y = arrays["y"]
    if y.dtype.kind not in "iu":
        raise ValueError("its labels are not integers")
    shape = None if image_shape is None else _shape_of(X.shape[1], image_shape)
    return Parsed(
        X,
        y.astype(np.int64),
        _names(arrays, "vocab"),
        _names(arrays, "class_names", "classes"),
        shape,
    )


def _unpack(arrays: dict[str, AnyArray]) -> Points:
    if "X" in arrays:
        return np.ascontiguousarray(arrays["X"].T, dtype=np.float64)
    n_words, n_documents = (int(size) for size in arrays["shape"])
    if arrays["indices"].dtype.kind not in "iu" or arrays["indptr"].dtype.kind not in "iu":
        raise ValueError("the places of its counts are not integers")
    parts = (arrays["data"].astype(np.float64), arrays["indices"], arrays["indptr"])
    # the CSC parts of a matrix are the CSR parts of its transpose
    counts: Sparse = sp.csr_array(parts, shape=(n_documents, n_words))
    counts.check_format(full_check=True)
    return counts


def _names(arrays: dict[str, AnyArray], *keys: str) -> tuple[str, ...] | None:
    return next((tuple(str(name) for name in arrays[key]) for key in keys if key in arrays), None)


def _shape_of(n_pixels: int, paper: tuple[int, int]) -> tuple[int, int] | None:
    """The paper's shape where it fits, a square where that does."""
    if n_pixels == math.prod(paper):
        return paper
    side = math.isqrt(n_pixels)
    return (side, side) if side * side == n_pixels else None
