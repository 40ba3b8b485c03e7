"""``.parquet``, by pandas and pyarrow."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from conecollapse._errors import InvalidInputError
from conecollapse.io.frames import from_pandas
from conecollapse.io.matrix import Matrix


def read_parquet(path: Path) -> Matrix:
    """Read a frame; its index, or a first column of text, names the rows."""
    if importlib.util.find_spec("pyarrow") is None:
        raise InvalidInputError(f'{path.name} needs the package pyarrow; install it with: pip install "conecollapse[parquet]".')
    import pandas as pd

    return from_pandas(pd.read_parquet(path, engine="pyarrow"), path.name)
