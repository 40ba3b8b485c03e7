"""Where blocks come from: a file for each format. `READERS` says which ending is read by which."""

from __future__ import annotations

from typing import Any

from conecollapse.tables.sources.arrays import ArraySource, NpySource, Source
from conecollapse.tables.sources.h5ad import H5adSource
from conecollapse.tables.sources.mtx import MtxSource

__all__ = ["READERS", "ArraySource", "H5adSource", "MtxSource", "Source"]

READERS: dict[str, Any] = {
    ".npy": NpySource,
    ".mtx": MtxSource,
    ".h5ad": H5adSource,
}
