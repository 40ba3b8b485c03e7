"""Bad points: one sentence with place, value and remedy, from every door that takes points."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from conecollapse import Cone, InvalidInputError, collapse
from conecollapse.geometry.selections import spa, xray

DOORS = [
    Cone.from_points,
    Cone.approximate,
    collapse,
    Cone.from_points(np.eye(2)).verify,
    lambda P: spa(P, 2),
    lambda P: xray(P, 2),
]

BAD = [
    ([[1.0, np.nan]], "P has NaN at row 0, column 1; remove or impute"),
    ([[1.0, 1.0], [np.inf, 0.0]], "P has an infinite entry at row 1, column 0"),
    (
        [[1.0, 2.0], [-0.2, 1.0]],
        r"P has 1 negative entry, the first at row 1, column 0 \(-0.2\); a cone needs points >= 0",
    ),
    ([[-1, 2], [3, -4]], r"P has 2 negative entries, the first at row 0, column 0 \(-1\)"),
    (np.zeros((0, 3)), r"P has no rows \(shape \(0, 3\)\)"),
    (np.zeros((3, 0)), "P has no columns"),
    (np.ones(3), r"P has shape \(3,\); expected two dimensions.* P.reshape\(1, -1\)"),
    (np.ones((2, 2, 2)), "expected two dimensions"),
    (np.array([["a", "b"]]), "P holds text, not numbers"),
    (np.array([[object(), 1]]), "P holds objects, not numbers"),
    (np.array([[1j, 1]]), "P holds complex numbers"),
    (
        [[1.7e308, 1.7e308]],
        r"P has 1.7e\+308 at row 0, column 0; rescale entries to at most 1e\+300",
    ),
    (
        np.array([[1, 1]], np.longdouble) * np.longdouble("1e400"),
        "P has an infinite entry at row 0, column 0",
    ),
    ([[1, 2], [3]], "P is not a rectangular table of numbers"),
    (sp.csr_array([[0, -1.5]]), r"P has 1 negative entry, the first at row 0, column 1 \(-1.5\)"),
    (sp.csr_array([[0, 0], [0, np.nan]]), "P has NaN at row 1, column 1"),
    (None, "P holds objects"),
]


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(("P", "message"), BAD)
def test_bad_points(door, P, message):
    with pytest.raises(InvalidInputError, match=message):
        door(P)


@pytest.mark.parametrize("door", DOORS[:3])
@pytest.mark.parametrize("P", [np.zeros((3, 2)), sp.csr_array((3, 2))])
def test_all_zero(door, P):
    with pytest.raises(
        InvalidInputError,
        match="all 3 points are zero; a cone needs at least one point that is not",
    ):
        door(P)


@pytest.mark.parametrize("tol", [0, -1, np.nan, 1.0, "tight", None, 1e-16])
def test_bad_tol(tol):
    with pytest.raises(
        InvalidInputError,
        match=r"tol must be a number above 0 and below 1; got|tol = 1e-16 is below 1e-10, the least"
        r" that can be proven in float64; pass that or more\.",
    ):
        Cone.from_points(np.eye(2), tol=tol)
    if tol is not None:  # the tolerance of the cone
        with pytest.raises(InvalidInputError, match=r"tol"):
            Cone.from_points(np.eye(2)).verify(np.eye(2), tol=tol)


def test_points_of_another_dimension():
    cone = Cone.from_points(np.eye(3))
    with pytest.raises(
        InvalidInputError, match="Y has 2 columns, but the cone lives in dimension 3"
    ):
        cone.contains(np.eye(2))
    with pytest.raises(InvalidInputError, match="Y has NaN at row 0, column 0"):
        cone.project([[np.nan, 0, 0]])
    with pytest.raises(
        InvalidInputError, match=r"Y has 1e\+301 at row 0, column 1; rescale entries"
    ):
        cone.contains([[0, 1e301, 0]])


def test_bad_options_of_collapse():
    for eta in (0, 1, -0.5, "x", np.nan):
        with pytest.raises(InvalidInputError, match="eta must be a number above 0 and below 1"):
            collapse(np.eye(2), eta=eta)
    with pytest.raises(InvalidInputError, match="callback"):
        collapse(np.eye(3), callback="print")


def test_bad_epsilon_options():
    for kwargs, message in [
        ({"max_residual": 0}, "max_residual must be a number above 0 and below 1; got 0"),
        ({"max_residual": 1e-9}, "use Cone.from_points"),
        ({"max_rays": 0}, "max_rays must be an integer of at least 1; got 0"),
        ({"max_rays": 2.5}, "max_rays must be an integer of at least 1; got 2.5"),
        ({"weighting": "size"}, "weighting must be one of unit, mass; got 'size'"),
        ({"weighting": np.ones(2)}, "weighting must be one of unit, mass"),
        ({"callback": 3}, "callback must be a function or None; got 3"),
    ]:
        with pytest.raises(InvalidInputError, match=message):
            Cone.approximate(np.eye(2), **kwargs)


@pytest.mark.parametrize("n_jobs", [0, -5, 2.5, "all", True])
def test_bad_n_jobs(n_jobs):
    for door in (Cone.from_points, Cone.approximate):
        with pytest.raises(
            InvalidInputError,
            match="n_jobs must be a number of threads, or None or -1 for all; got",
        ):
            door(np.eye(2), n_jobs=n_jobs)


def test_masked_points_are_refused():
    with pytest.raises(InvalidInputError, match="P is a masked array with 1 masked entry"):
        Cone.from_points(np.ma.masked_array([[1.0, 2.0]], [[True, False]]))


def test_input_is_never_changed():
    P = np.random.default_rng(0).random((20, 4))
    S = sp.csc_array(P * (P > 0.5))
    copies = P.copy(), S.copy()
    for points in (P, S):
        Cone.from_points(points).verify(points)
        Cone.approximate(points)
        collapse(points)
    np.testing.assert_array_equal(P, copies[0])
    assert (copies[1] != S).nnz == 0
