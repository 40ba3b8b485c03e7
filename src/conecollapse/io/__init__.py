"""Read tables from files, frames and arrays, with their names, samples in rows. An error is one
sentence that says what is wrong.

`read_table` reads ``.npy``, ``.npz``, ``.csv``, ``.tsv``, ``.mtx``, ``.parquet`` and ``.h5ad``
files, pandas and polars frames, AnnData objects and arrays; `open_table` opens those that are
larger than memory; `read_labels` reads known classes; `read_spectra` reads images of many bands as
tables of pixels. Files are never unpickled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from conecollapse._lookup import on_demand

if TYPE_CHECKING:
    from conecollapse.io.formats import FORMATS
    from conecollapse.io.labels import read_labels
    from conecollapse.io.reading import open_table, read_table
    from conecollapse.io.source import TableSource
    from conecollapse.io.spectra import Spectra, read_spectra
    from conecollapse.io.table_file import TableFile

_HOMES = {
    "conecollapse.io.formats": ("FORMATS",),
    "conecollapse.io.labels": ("read_labels",),
    "conecollapse.io.reading": ("open_table", "read_table"),
    "conecollapse.io.source": ("TableSource",),
    "conecollapse.io.spectra": ("Spectra", "read_spectra"),
    "conecollapse.io.table_file": ("TableFile",),
}

__all__ = [
    "FORMATS",
    "Spectra",
    "TableFile",
    "TableSource",
    "open_table",
    "read_labels",
    "read_spectra",
    "read_table",
]

__getattr__ = on_demand(__name__, _HOMES)  # estimators need no readers of files


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
