"""AnnData: ``.h5ad`` files and objects; samples (obs) in rows, features (var) in columns."""

from __future__ import annotations

import importlib.util
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from conecollapse._errors import InvalidInputError
from conecollapse._room import check_extent, check_room, unreadable
from conecollapse._types import AnyArray
from conecollapse.io.matrix import Matrix
from conecollapse.io.names import as_names

# what h5py raises for a damaged file, and anndata for a file of another layout
H5PY_RAISES = (OSError, RuntimeError, ValueError, TypeError, KeyError, AttributeError)
HIGHLY_VARIABLE = "highly_variable"  # scanpy's column of `var`
LISTED = 8  # columns that a message names
ANNDATA_RAISES = (*H5PY_RAISES, IndexError, NotImplementedError, AssertionError)


def read_h5ad(path: Path, layer: str | None = None) -> Matrix:
    """Read ``X`` or a layer, ``obs_names`` and ``var_names``; needs anndata."""
    return from_anndata(whole_h5ad(path), path.name, layer)


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
    frames = {
        name: pd.DataFrame(index=pd.Index(list(names), dtype=object))
        for name, names in _axes(sample_names, feature_names)
    }
    return anndata.AnnData(sp.csr_matrix(X) if sp.issparse(X) else X, **frames)


def _axes(sample_names: Any, feature_names: Any) -> tuple[tuple[str, Any], ...]:
    return ("obs", sample_names), ("var", feature_names)


def obs_column(data: Any, column: str, source: str = "the AnnData object") -> AnyArray:
    """A column of ``obs`` as text, for known classes."""
    if column not in data.obs:
        there = ", ".join(map(repr, data.obs.columns[:LISTED])) or "none"
        raise InvalidInputError(f"{source} has no column {column!r} in obs; it has {there}.")
    values = data.obs[column]
    if values.isna().any():
        row = int(values.isna().to_numpy().argmax())
        raise InvalidInputError(
            f"{source} has no value in obs[{column!r}] for the sample {str(data.obs_names[row])!r};"
            " give each one."
        )
    return as_names(values, "labels")


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


def from_anndata(data: Any, source: str = "the AnnData object", layer: str | None = None) -> Matrix:
    """The table of an AnnData object, or one of its layers."""
    rows, columns = (
        as_names(data.obs_names, "samples (obs)"),
        as_names(data.var_names, "features (var)"),
    )
    return Matrix(
        in_memory(data, layer, source),
        rows,
        columns,
        features_in="columns",
        because="AnnData holds samples (obs) in rows",
        marked=highly_variable(data),
    )


def highly_variable(data: Any) -> AnyArray | None:
    """Which features ``var["highly_variable"]`` marks; None where there is no such column."""
    if HIGHLY_VARIABLE not in data.var:
        return None
    return np.asarray(data.var[HIGHLY_VARIABLE].isin([True]), bool)  # a missing mark is none


def is_anndata(data: Any) -> bool:
    """Whether this is an AnnData object; anndata is not imported for it."""
    return type(data).__module__.partition(".")[0] == "anndata" and hasattr(data, "obs_names")


def stored_at(data: Any) -> Path | None:
    """The file that holds the tables of a backed AnnData object; None if they are in memory, or if
    it is a part of another object."""
    return Path(data.filename) if getattr(data, "isbacked", False) and not data.is_view else None


def in_memory(data: Any, layer: str | None = None, source: str = "the AnnData object") -> Any:
    """``X`` of an AnnData object, or one of its layers, as an array or a sparse array."""
    if layer is not None and layer not in data.layers:
        raise no_layer(layer, list(data.layers), source)
    values = data.X if layer is None else data.layers[layer]
    if values is None:
        raise InvalidInputError(
            f"{source} has no X; put the table of counts there, or name one of its layers with"
            " layer=...."
        )
    # a view of a file or of another object
    return values[:] if type(values).__module__.startswith("anndata") else values


def no_layer(layer: str, there: list[str], source: str) -> InvalidInputError:
    """The error for a layer that is not there."""
    known = f"it has {', '.join(map(repr, there))}" if there else "it has none, only X"
    return InvalidInputError(f"{source} has no layer {layer!r}; {known}.")


def _check_size(path: Path) -> None:
    """Refuse arrays for which there is no room: a few bytes of HDF5 may stand for any number of
    equal entries."""
    import h5py

    sizes: list[int] = []
    extent: tuple[int, ...] = ()
    try:
        with h5py.File(path, "r") as file:
            file.visititems(
                lambda _, item: (
                    sizes.append(item.size * item.dtype.itemsize)
                    if isinstance(item, h5py.Dataset)
                    else None
                )
            )
            if "X" in file and not isinstance(file["X"], h5py.Dataset):
                extent = tuple(int(size) for size in file["X"].attrs["shape"])
    except H5PY_RAISES as error:
        raise unreadable(path, error) from error
    check_room(sum(sizes), path)
    if len(extent) == 2:
        check_extent(extent[0], extent[1], path)
