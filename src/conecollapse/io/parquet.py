"""``.parquet``, by pandas and pyarrow."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from conecollapse._errors import InvalidInputError
from conecollapse.io.frames import from_frame
from conecollapse.io.limits import NUMBER_BYTES, check_room, unreadable
from conecollapse.io.matrix import Matrix

# what pandas raises for metadata of its own that it cannot use; pyarrow's exceptions are added
# where it is imported
PANDAS_RAISES = (ValueError, TypeError, LookupError, AttributeError, OSError, NotImplementedError)


def read(path: Path, names: bool | None = None) -> Matrix:
    """Read a frame; its index, or a first column of names, names the rows."""
    if importlib.util.find_spec("pyarrow") is None:
        raise InvalidInputError(
            f"{path.name} needs the package pyarrow; install it with: pip install"
            ' "conecollapse[parquet]".'
        )
    return from_frame(_frame(path), path.name, names)


def _frame(path: Path) -> Any:
    import pandas as pd
    import pyarrow
    import pyarrow.parquet

    raises = (*PANDAS_RAISES, pyarrow.ArrowException)
    try:
        size = pyarrow.parquet.read_metadata(path)
    except raises as error:
        raise unreadable(path, error) from error
    packed = sum(size.row_group(k).total_byte_size for k in range(size.num_row_groups))
    check_room(max(packed, NUMBER_BYTES * size.num_rows * size.num_columns), path)
    try:
        return pd.read_parquet(path, engine="pyarrow")
    except raises as error:
        raise unreadable(path, error) from error
