"""Parts of a certificate, made plain before any of them is used.

A certificate may come from a file or from anyone's code, so nothing about it is believed. Each
function here takes one part and refuses it with a sentence that names it, or returns it as a plain
array of ours: exactly `numpy.ndarray` (a masked array would hide entries from every comparison),
native ``int64``, ``float64`` (or ``float32``, where a witness is stored so) or ``bool``, finite; or
a `scipy.sparse.csr_array` built anew from such arrays, with increasing columns in each row.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
import scipy.sparse as sp

from conecollapse._errors import CertificateError, quoted
from conecollapse._types import AnyArray, BoolArray, FloatArray, IntArray, Sparse


def count(name: str, value: Any) -> int:
    """A positive integer."""
    if type(value) not in (int, np.int64, np.int32) or value < 1:
        refuse(name, f"it must be a positive integer, not {quoted(value)}")
    return int(value)


def number(name: str, value: Any, low: float, high: float) -> float:
    """A float in [low, high]."""
    if type(value) not in (float, np.float64) or not low <= float(value) <= high:
        refuse(name, f"it must be a number from {low:g} to {high:g}, not {quoted(value)}")
    return float(value)


def indices(name: str, array: Any, length: int | None, low: int, high: int) -> IntArray:
    """A list of integers from ``low`` to ``high - 1``."""
    if not (type(array) is np.ndarray and array.ndim == 1 and array.dtype.kind in "iu"):
        refuse(name, "it must be a plain array of integers")
    if length is not None and len(array) != length:
        refuse(name, f"it has {len(array)} entries where {length} are needed")
    for at in np.flatnonzero((array < low) | (array >= high))[:1]:
        refuse(name, f"entry {at} is {array[at]}, outside {low}..{high - 1}")
    return array.astype(np.int64)


def flags(name: str, array: Any, length: int) -> BoolArray:
    """A list of booleans."""
    if not (type(array) is np.ndarray and array.dtype == np.bool_ and array.shape == (length,)):
        refuse(name, f"it must be a plain array of {length} booleans")
    return array.copy()


def floats(
    name: str, array: Any, shape: tuple[int | None, ...], *, single: bool = False
) -> FloatArray:
    """Finite floats of this shape; None stands for any length. Where ``single`` is allowed, float32
    stays as it is."""
    wanted = "(" + ", ".join("any" if size is None else str(size) for size in shape) + ")"
    if not (type(array) is np.ndarray and _is_float(array) and array.ndim == len(shape)):
        refuse(
            name, f"it must be a plain array of floats of shape {wanted}, not {_describe(array)}"
        )
    if any(
        size is not None and size != found for size, found in zip(shape, array.shape, strict=True)
    ):
        refuse(name, f"it must have the shape {wanted}, not {array.shape}")
    if not np.isfinite(array).all():
        refuse(
            name,
            "it has a value that is not finite, in row"
            f" {int(np.argwhere(~np.isfinite(array))[0][0])}",
        )
    return np.asarray(
        array, dtype=np.float32 if single and array.dtype.itemsize == 4 else np.float64
    )


def sparse(name: str, M: Any, shape: tuple[int, int], *, single: bool = False) -> Sparse:
    """A canonical CSR array of this shape; no flag that ``M`` carries is read. Where ``single`` is
    allowed, float32 stays as it is."""
    if type(M) is not sp.csr_array or tuple(M.shape) != shape:
        refuse(name, f"it must be a CSR array of shape {shape}, not {_describe(M)}")
    return csr(name, M.data, M.indices, M.indptr, shape, single=single)


def csr(
    name: str, data: Any, columns: Any, starts: Any, shape: tuple[int, int], *, single: bool = False
) -> Sparse:
    """The parts of a CSR array, checked and put together: finite floats under columns that increase
    in each row."""
    if not all(type(part) is np.ndarray and part.ndim == 1 for part in (data, columns, starts)):
        refuse(name, "its parts must be plain arrays")
    if columns.dtype.kind != "i" or starts.dtype.kind != "i" or not _is_float(data):
        refuse(name, "it must hold floats, under integer columns and row pointers")
    fits = len(starts) == shape[0] + 1 and starts[0] == 0 and not (np.diff(starts) < 0).any()
    if not fits or not starts[-1] == len(data) == len(columns):
        refuse(name, "its row pointers do not fit its entries")
    if len(columns) and not (columns.min() >= 0 and columns.max() < shape[1]):
        refuse(name, f"it names a column outside 0..{shape[1] - 1}")
    increases = np.diff(columns) > 0
    inner = starts[1:-1]
    increases[inner[(inner > 0) & (inner < len(columns))] - 1] = True  # where a new row begins
    if not increases.all():
        refuse(name, "the columns of a row must increase")
    if not np.isfinite(data).all():
        refuse(name, "it has a value that is not finite")
    wide = np.int64 if max(*shape, len(data)) > np.iinfo(np.int32).max else np.int32
    kept = np.float32 if single and data.dtype.itemsize == 4 else np.float64
    return sp.csr_array(
        (np.asarray(data, kept), columns.astype(wide), starts.astype(wide)), shape=shape
    )


def refuse(name: str, why: str) -> NoReturn:
    """Raise `CertificateError` about one part."""
    raise CertificateError(f"the certificate's {name!r} is not well formed: {why}.")


def _is_float(array: AnyArray) -> bool:
    return array.dtype.kind == "f" and array.dtype.itemsize <= 8


def _describe(value: Any) -> str:
    shape = getattr(value, "shape", None)
    return (
        type(value).__name__
        if shape is None
        else f"{type(value).__name__} of {getattr(value, 'dtype', '?')} and shape {shape}"
    )
