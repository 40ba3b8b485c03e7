"""Read tables from files, frames and arrays, with their names, samples in rows. An error is one
sentence that says what is wrong.

`read_table` reads ``.npy``, ``.npz``, ``.csv``, ``.tsv``, ``.mtx``, ``.parquet`` and ``.h5ad``
files, pandas and polars frames, AnnData objects and arrays; `read_labels` reads known classes;
`read_spectra` reads images of many bands as tables of pixels. Files are never unpickled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from conecollapse._lookup import on_demand

if TYPE_CHECKING:
    from conecollapse.io.cube import Spectra, read_spectra
    from conecollapse.io.labels import read_labels
    from conecollapse.io.reading import FORMATS, read_table
    from conecollapse.io.table_file import TableFile

_HOMES = {
    "conecollapse.io.cube": ("Spectra", "read_spectra"),
    "conecollapse.io.labels": ("read_labels",),
    "conecollapse.io.reading": ("FORMATS", "read_table"),
    "conecollapse.io.table_file": ("TableFile",),
}

__all__ = ["FORMATS", "Spectra", "TableFile", "read_labels", "read_spectra", "read_table"]

__getattr__ = on_demand(__name__, _HOMES)  # estimators need no readers of files


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
