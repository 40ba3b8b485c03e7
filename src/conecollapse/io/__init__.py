"""Tables from files, frames and arrays: with their names, in one orientation, or one sentence that says what is wrong.

`read_table` reads ``.npy``, ``.npz``, ``.csv``, ``.tsv``, ``.mtx``, ``.parquet`` and ``.h5ad`` files, pandas and polars frames, AnnData
objects and arrays; `read_labels` reads known classes. No file is ever unpickled.
"""

from conecollapse.io.labels import read_labels
from conecollapse.io.reading import FORMATS, read_table
from conecollapse.io.table_file import TableFile

__all__ = ["FORMATS", "TableFile", "read_labels", "read_table"]
