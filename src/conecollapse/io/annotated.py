"""AnnData objects, and the packages that make them; samples (obs) in rows, features (var) in
columns. Only what reads or makes a whole object needs anndata."""

from __future__ import annotations

import importlib.util
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from conecollapse._errors import InvalidInputError, argument
from conecollapse._types import AnyArray
from conecollapse.io.h5ad import HIGHLY_VARIABLE, REASON, H5adSource, no_table
from conecollapse.io.hdf5 import H5PY_RAISES, reading_hdf5
from conecollapse.io.limits import LINE_BYTES, check_room, unreadable
from conecollapse.io.matrix import Matrix
from conecollapse.io.names import as_names

NAMED = 8  # columns that a message names
# what anndata raises for a file of another layout
ANNDATA_RAISES = (*H5PY_RAISES, AssertionError)


def is_anndata(data: Any) -> bool:
    """Whether this is an AnnData object; anndata is not imported for it."""
    return type(data).__module__.partition(".")[0] == "anndata" and hasattr(data, "obs_names")


def stored_at(data: Any) -> Path | None:
    """The file that holds the tables of a backed AnnData object; None if they are in memory, or if
    it is a part of another object."""
    return Path(data.filename) if getattr(data, "isbacked", False) and not data.is_view else None


def from_anndata(data: Any, layer: str | None = None) -> Matrix:
    """The table of an AnnData object, or one of its layers."""
    return Matrix(
        in_memory(data, layer),
        as_names(data.obs_names, "samples (obs)"),
        as_names(data.var_names, "features (var)"),
        features_in="columns",
        because=REASON,
        marked=highly_variable(data),
    )


def in_memory(data: Any, layer: str | None = None) -> Any:
    """``X`` of an AnnData object, or one of its layers, as an array or a sparse array."""
    if layer is not None and layer not in data.layers:
        raise no_table("the AnnData object", layer, list(data.layers))
    values = data.X if layer is None else data.layers[layer]
    if values is None:
        raise InvalidInputError(
            "the AnnData object has no X; put the table of counts there, or name one of its layers"
            f" with {argument('layer', ...)}."
        )
    # a view of a file or of another object
    return values[:] if type(values).__module__.startswith("anndata") else values


def highly_variable(data: Any) -> AnyArray | None:
    """Which features ``var["highly_variable"]`` marks; None where there is no such column."""
    if HIGHLY_VARIABLE not in data.var:
        return None
    return np.asarray(data.var[HIGHLY_VARIABLE].isin([True]), bool)  # a missing mark is none


def obs_column(data: Any, column: str, source: str, missing: str | None = None) -> AnyArray:
    """A column of ``obs`` as text, for known classes; ``missing`` is written for missing values,
    which are refused without it."""
    if column not in data.obs:
        there = ", ".join(map(repr, data.obs.columns[:NAMED])) or "none"
        raise InvalidInputError(f"{source} has no column {column!r} in obs; it has {there}.")
    values = data.obs[column]
    if missing is not None:
        values = values.astype(object).where(values.notna(), missing)
    if values.isna().any():
        row = int(values.isna().to_numpy().argmax())
        raise InvalidInputError(
            f"{source} has no value in obs[{column!r}] for the sample {str(data.obs_names[row])!r};"
            " give each one."
        )
    return as_names(values, "labels")


def whole_h5ad(path: Path) -> Any:
    """The AnnData object in a file, all of it."""
    anndata = _anndata(path.name)
    _check_size(path)
    with warnings.catch_warnings():
        # of its own dependencies, and about names that occur twice, which are fine here
        warnings.simplefilter("ignore")
        try:
            return anndata.read_h5ad(path)
        except Exception as error:
            # its own exceptions are private
            if isinstance(error, ANNDATA_RAISES) or type(error).__module__.startswith("anndata."):
                raise unreadable(path, error) from error
            raise


def new_anndata(X: Any, sample_names: Any, feature_names: Any) -> Any:
    """An AnnData object of a table and its names."""
    import pandas as pd

    anndata = _anndata("an AnnData object")
    obs, var = (
        pd.DataFrame(index=pd.Index(list(names), dtype=object))
        for names in (sample_names, feature_names)
    )
    return anndata.AnnData(sp.csr_matrix(X) if sp.issparse(X) else X, obs=obs, var=var)


def _anndata(what: str) -> Any:
    """The package, which is imported here only."""
    if importlib.util.find_spec("anndata") is None:
        raise InvalidInputError(
            f'{what} needs the package anndata; install it with: pip install "conecollapse[bio]".'
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its own dependencies
        import anndata
    return anndata


def _check_size(path: Path) -> None:
    """Refuse arrays for which there is no room: a few bytes of HDF5 may stand for any number of
    equal entries."""
    sizes: list[int] = []

    def look(_: str, item: Any) -> None:
        if getattr(item, "size", None) is not None:  # of a group, or of an empty dataset, it is not
            is_text = item.dtype.kind == "O"
            sizes.append(item.size * (LINE_BYTES if is_text else item.dtype.itemsize))

    with reading_hdf5(path) as file:
        file.visititems(look)
    check_room(sum(sizes), path)
    H5adSource(path)  # what it promises of X
