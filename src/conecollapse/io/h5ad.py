"""AnnData: ``.h5ad`` files and objects; samples (obs) in rows, features (var) in columns."""

from __future__ import annotations

import importlib.util
import warnings
from pathlib import Path
from typing import Any

from conecollapse._errors import InvalidInputError
from conecollapse.io.matrix import Matrix
from conecollapse.io.names import as_names


def read_h5ad(path: Path) -> Matrix:
    """Read ``X``, ``obs_names`` and ``var_names``; needs anndata."""
    if importlib.util.find_spec("anndata") is None:
        raise InvalidInputError(f'{path.name} needs the package anndata; install it with: pip install "conecollapse[bio]".')
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its own dependencies, and about names that occur twice, which are fine here
        import anndata

        data = anndata.read_h5ad(path)
    return from_anndata(data, path.name)


def from_anndata(data: Any, source: str = "the AnnData object") -> Matrix:
    """The table of an AnnData object."""
    if data.X is None:
        raise InvalidInputError(f"{source} has no X; put the table of counts there.")
    values = data.X[:] if type(data.X).__module__.startswith("anndata") else data.X  # a view of a file or of another object
    rows, columns = as_names(data.obs_names, "samples (obs)"), as_names(data.var_names, "features (var)")
    return Matrix(values, rows, columns, features_in="columns", because="AnnData holds samples (obs) in rows")
