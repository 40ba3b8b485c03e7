"""Read tables from files, frames and arrays, with their names, samples in rows. An error is one sentence that says what is wrong.

`read_table` reads ``.npy``, ``.npz``, ``.csv``, ``.tsv``, ``.mtx``, ``.parquet`` and ``.h5ad`` files, pandas and polars frames, AnnData
objects and arrays; `read_labels` reads known classes; `read_spectra` reads images of many bands as tables of pixels. Files are never
unpickled.
"""

from conecollapse.io.cube import Spectra, read_spectra
from conecollapse.io.labels import read_labels
from conecollapse.io.reading import FORMATS, read_table
from conecollapse.io.table_file import TableFile

__all__ = ["FORMATS", "Spectra", "TableFile", "read_labels", "read_spectra", "read_table"]
