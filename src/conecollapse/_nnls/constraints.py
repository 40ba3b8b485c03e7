"""What a least-squares problem may be asked for beyond x >= 0, checked at the public door."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from conecollapse._checks import as_array, as_matrix, check_finite
from conecollapse._errors import InvalidInputError
from conecollapse._types import AnyArray, BoolArray, FloatArray, Points

SUM_ROOM = 1e-12  # upper bounds that sum to one but for rounding leave room for shares


@dataclass(frozen=True)
class Constraints:
    """Bounds, penalties and weights of k problems in n variables; two-dimensional arrays have a
    column for each, or one for all."""

    simplex: bool
    upper: FloatArray  # (n, k or 1): infinite without a bound, zero where a column is not allowed
    ridge: float
    l1: float
    row_weights: FloatArray | None  # (m,): for all problems
    weights: FloatArray | None  # (m, k): for each its own

    @classmethod
    def checked(cls, options: dict[str, Any], m: int, n: int, k: int) -> Constraints:
        """The options of `nnls` for an (m, n) matrix and k right-hand sides."""
        simplex = options["simplex"]
        ridge, l1 = (_penalty(options[name], name) for name in ("ridge", "l1"))
        if not isinstance(simplex, (bool, np.bool_)):
            raise InvalidInputError(f"simplex must be True or False; got {simplex!r}.")
        if simplex and l1:
            raise InvalidInputError(
                f"l1 = {l1:g} has no effect where coefficients sum to one; leave it out, or pass"
                " simplex=False."
            )
        upper = np.full((n, 1), np.inf)
        if options["upper"] is not None:
            upper = _upper(options["upper"], n, k)
        if options["allowed"] is not None:
            upper = np.where(_allowed(options["allowed"], n, k), upper, 0.0)
        if simplex:
            _check_room(upper, k)
        weights = None if options["weights"] is None else _weights(options["weights"], m, k)
        row_weights = None
        if weights is not None and (weights == weights[:, :1]).all():
            row_weights, weights = weights[:, 0], None
        return cls(bool(simplex), upper, ridge, l1, row_weights, weights)

    @property
    def root_weights(self) -> FloatArray:
        """The roots of the weights, in columns for the problems or in one for all."""
        if self.weights is not None:
            return np.asarray(np.sqrt(self.weights))
        one = np.ones(1) if self.row_weights is None else self.row_weights
        return np.asarray(np.sqrt(one)[:, None])

    @cached_property
    def has_bounds(self) -> bool:
        """Whether there is an upper bound other than zero."""
        return bool(((self.upper > 0) & (self.upper < np.inf)).any())

    def bounds(self, columns: slice) -> FloatArray:
        """The upper bounds of these problems in rows, or one row for all."""
        return (self.upper if self.upper.shape[1] == 1 else self.upper[:, columns]).T


def _penalty(value: Any, name: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = np.nan
    if not 0 <= number < np.inf or isinstance(value, (bool, str)):
        raise InvalidInputError(f"{name} must be a number of at least 0; got {value!r}.")
    return number


def _upper(value: Any, n: int, k: int) -> FloatArray:
    array = as_array(value, "upper").astype(np.float64)
    bounds = (
        np.full((n, 1), array)
        if array.ndim == 0
        else _shaped(array, "upper", (n, k), f"a number, ({n},) or ({n}, {k})")
    )
    for row, column in np.argwhere(~(bounds >= 0))[:1]:
        raise InvalidInputError(
            f"upper has {bounds[row, column]:g}{_at(array, row, column)}; bounds must be numbers of"
            " at least 0."
        )
    return bounds


def _allowed(value: Any, n: int, k: int) -> BoolArray:
    array = value.toarray() if sp.issparse(value) else as_array(value, "allowed")
    if array.dtype != np.bool_:
        for at in np.argwhere((array != 0) & (array != 1))[:1]:
            raise InvalidInputError(
                f"allowed has {array[tuple(at)]:g}{_at(array, *at)}; a mask holds True and False,"
                " or 1 and 0."
            )
        array = array.astype(bool)
    return _shaped(array, "allowed", (n, k), f"({n},) or ({n}, {k})")


def _weights(value: Any, m: int, k: int) -> FloatArray:
    array = value.toarray() if sp.issparse(value) else as_array(value, "weights")
    weights = _shaped(array.astype(np.float64), "weights", (m, k), f"({m},) or ({m}, {k})")
    for row, column in np.argwhere(~(np.isfinite(weights) & (weights >= 0)))[:1]:
        value = weights[row, column]
        what = "NaN" if np.isnan(value) else f"{value:g}"
        raise InvalidInputError(
            f"weights has {what}{_at(array, row, column)}; weights must be finite and at least 0."
        )
    return weights


def _at(array: AnyArray, *at: int) -> str:
    """Where an entry of an argument is, in words that fit its shape."""
    if array.ndim == 0:
        return ""
    return f" at entry {at[0]}" if array.ndim == 1 else f" at row {at[0]}, column {at[1]}"


def _shaped(array: AnyArray, name: str, shape: tuple[int, int], expected: str) -> AnyArray:
    """``array`` with a column for each problem, or one for all."""
    matrix = array[:, None] if array.ndim == 1 else array
    if matrix.ndim != 2 or matrix.shape[0] != shape[0] or matrix.shape[1] not in (1, shape[1]):
        raise InvalidInputError(f"{name} has shape {array.shape}; expected {expected}.")
    return matrix


def _check_room(upper: FloatArray, k: int) -> None:
    """A sum of one must be possible for each problem."""
    room = upper.sum(axis=0)
    for j in np.flatnonzero(room < 1 - SUM_ROOM)[:1]:
        which = f" of column {j} of b" if len(room) == k > 1 else ""
        raise InvalidInputError(
            f"the coefficients{which} cannot sum to one: the upper bounds of those that are allowed"
            f" sum to {room[j]:g}; raise upper, allow more columns, or pass simplex=False."
        )


def check_problem(A: Any, b: Any) -> tuple[Points, Points, bool]:
    if not sp.issparse(A):
        A = as_array(A, "A")
        if A.ndim != 2:
            raise InvalidInputError(f"Expected a 2D array, but the shape of A is {A.shape}")
    A = as_matrix(A, "A")
    if not sp.issparse(b):
        b = as_array(b, "b")
        if b.ndim not in (1, 2):
            raise InvalidInputError(
                "Expected a 1D array, or a 2D array of right-hand sides in columns, but the shape"
                f" of b is {b.shape}"
            )
    flat = b.ndim == 1
    rows = b.shape[0]
    if rows != A.shape[0]:
        raise InvalidInputError(
            f"Incompatible dimensions. The first dimension of A is {A.shape[0]}, while the shape of"
            f" b is {tuple(b.shape)}"
        )
    B = as_matrix(b if sp.issparse(b) or b.ndim == 2 else b[:, None], "b")
    check_finite(A, "A")
    check_finite(B, "b")
    return A, B.tocsc() if sp.issparse(B) else B, flat


def check_start(x0: Any, n: int, k: int, flat: bool) -> AnyArray:
    start = as_array(x0, "x0")
    if start.ndim == 1:
        start = start[:, None]
    if start.shape != (n, k):
        raise InvalidInputError(
            f"x0 has shape {np.shape(x0)}; expected that of the solution,"
            f" {(n,) if flat else (n, k)}."
        )
    check_finite(start, "x0")
    return start
