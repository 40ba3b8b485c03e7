"""``.npy``: one array."""

from __future__ import annotations

from pathlib import Path

from conecollapse._arrays import load_npy
from conecollapse.io.matrix import Matrix


def read_npy(path: Path) -> Matrix:
    """Read a two-dimensional array; objects are refused, never unpickled."""
    return Matrix(load_npy(path))
