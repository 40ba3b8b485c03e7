"""Hulls: the vertices are Qhull's, whatever the position, scale and orientation; distances and
claims are in the units of the points."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest
import scipy.optimize
import scipy.spatial
from conftest import seeds

from conecollapse import CertificateError, Cone, ConeFileError, Hull, nnls
from conecollapse._nnls.bound import OPTIMAL
from conecollapse._nnls.constrained import Scaled, bound_values, measure, new_block, solve_block
from conecollapse._nnls.constraints import Constraints
from conecollapse._nnls.products import Solved


def clouds(dim, rng):
    """Random clouds, among them lattices with many points on faces, repeated points, and clouds
    that are far away or stretched."""
    n = int(rng.integers(dim + 2, 40))
    normal = rng.standard_normal((n, dim))
    corners = rng.standard_normal((dim + 1, dim))
    return {
        "normal": normal,
        "lattice": rng.integers(-2, 3, (n, dim)).astype(float),
        "repeated": np.vstack([normal, normal[:5]]),
        "far away": 1e3 + 1e-3 * normal,
        "stretched": normal * 10.0 ** -np.arange(dim),
        "one simplex": np.vstack([corners, rng.dirichlet(np.ones(dim + 1), n) @ corners]),
    }


@pytest.mark.parametrize("seed", seeds(34, quick=2))
def test_vertices_are_qhulls(seed):
    rng = np.random.default_rng(seed)
    for name, X in clouds(2 + seed % 6, rng).items():
        hull = Hull.from_points(X)
        expected = scipy.spatial.ConvexHull(X).vertices
        assert {tuple(x) for x in hull.vertices} == {tuple(x) for x in X[expected]}, name
        verdict = hull.verify(X)
        assert verdict.largest_distance <= hull.tol
        assert (
            verdict.smallest_distance is None
            or verdict.smallest_distance > hull.tol * hull.dim / (hull.dim + 1) * 0.99
        )


def scipys_distance(V, y):
    """By SciPy's NNLS, from the smallest value of |P h|^2 + (sum h - 1)^2 for P = V - y."""
    M = np.column_stack([V - y, np.ones(len(V))])
    h = scipy.optimize.nnls(M.T, np.append(np.zeros(V.shape[1]), 1.0))[0]
    return np.linalg.norm(h @ V / h.sum() - y)


def test_distances_are_those_of_the_nearest_points():
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((60, 4)), 2 * rng.standard_normal((40, 4))
    hull = Hull.from_points(X)
    expected = [scipys_distance(X, y) for y in Y]
    distance, shares = hull.distance(Y), hull.coefficients(Y)
    np.testing.assert_allclose(distance, expected, atol=1e-10)
    np.testing.assert_allclose(shares @ hull.vertices, hull.nearest(Y), atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(hull.nearest(Y) - Y, axis=1), distance, atol=1e-12)
    assert (shares >= 0).all()
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    np.testing.assert_array_equal(hull.contains(Y), distance == 0)
    assert (distance[np.abs(distance) < 1e-9] == 0).all()
    assert hull.contains(X).all()
    assert hull.contains(Y, tol=float(distance.max())).all()


def test_nothing_depends_on_position_scale_and_orientation():
    rng = np.random.default_rng(1)
    X, Y = rng.standard_normal((50, 5)), 2 * rng.standard_normal((10, 5))
    hull = Hull.from_points(X)
    Q = np.linalg.qr(rng.standard_normal((5, 5)))[0]
    for scale in (1e-200, 1e-9, 1e9, 1e200):
        moved = Hull.from_points(scale * (X @ Q + 3))
        np.testing.assert_array_equal(moved.vertex_indices, hull.vertex_indices)
        np.testing.assert_allclose(
            moved.distance(scale * (Y @ Q + 3)) / scale, hull.distance(Y), atol=1e-9
        )
        assert moved.tol / scale == pytest.approx(hull.tol)


def test_tol_is_a_distance_in_the_units_of_the_points():
    """A point that sticks out of a face by more than tol is a vertex, by less than d / (d + 1) of
    it is none."""
    square = 1000.0 + 10 * np.array([[0, 0], [1, 0], [0, 1], [1, 1]])
    for height, is_vertex in ((1.1, True), (0.6, False)):
        radius = Hull.from_points(np.vstack([square, [1005, 1000]])).radius
        X = np.vstack([square, [1005, 1000 - height * 1e-3 * radius]])
        hull = Hull.from_points(X, tol=1e-3)
        assert hull.tol == pytest.approx(1e-3 * hull.radius)
        assert (4 in hull.vertex_indices) == is_vertex
        hull.verify(X)


def test_degenerate_clouds():
    rng = np.random.default_rng(2)
    one = Hull.from_points([[1.0, -2.0]] * 3)
    assert (one.vertex_indices.tolist(), one.groups[0].tolist(), one.radius) == ([0], [0, 1, 2], 0)
    np.testing.assert_allclose(one.distance([[4, 2], [1, -2]]), [5, 0])
    assert "1 vertex spans all 3 points" in str(one.verify([[1.0, -2.0]] * 3))
    line = Hull.from_points(rng.permutation(np.arange(-3.0, 4))[:, None])
    assert sorted(line.vertices.ravel()) == [-3, 3]
    np.testing.assert_allclose(line.distance([[5], [-1]]), [2, 0])
    flat = rng.standard_normal((30, 2)) @ rng.standard_normal((2, 6))  # a plane in six dimensions
    expected = scipy.spatial.ConvexHull(flat @ np.linalg.svd(flat)[2][:2].T).vertices
    assert sorted(Hull.from_points(flat).vertex_indices) == sorted(expected)


def test_names_and_single_precision():
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        rng.standard_normal((20, 3)).astype(np.float32), index=[f"p{i}" for i in range(20)]
    )
    hull = Hull.from_points(frame)
    assert hull.vertex_names.tolist() == [f"p{i}" for i in hull.vertex_indices]
    assert sorted(hull.vertex_indices) == sorted(
        scipy.spatial.ConvexHull(frame.to_numpy()).vertices
    )
    hull.verify(frame)


def test_forged_hulls_are_refused():
    X = np.random.default_rng(4).standard_normal((30, 3))
    hull = Hull.from_points(X)
    for forged, message in (
        (
            Hull(hull.vertices + 1, hull.cone, hull.centre, hull.radius),
            "vertices are not the points",
        ),
        (Hull(hull.vertices, hull.cone, hull.centre, hull.radius / 2), "further than the radius"),
        (Hull(hull.vertices, hull.cone, hull.centre + 0.1, 9 * hull.radius), "ray 0"),
    ):
        with pytest.raises(CertificateError, match=message):
            forged.verify(X)
    with pytest.raises(ValueError, match="Y has 2 columns"):
        hull.distance(X[:, :2])
    with pytest.raises(CertificateError, match="dimension 3, but X has 2 columns"):
        hull.verify(X[:, :2])
    without = Cone(hull.cone.rays, dataclasses.replace(hull.cone.certificate, tol=1e-3))
    with pytest.raises(CertificateError):
        Hull(hull.vertices, without, hull.centre, hull.radius).verify(X[::-1])


def test_directions_have_the_rays_of_their_cone():
    rng = np.random.default_rng(5)
    P = rng.random((40, 4))
    P[20:] = rng.random((20, 20)) @ P[:20]
    rays = Cone.from_points(P).ray_indices
    Q = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    for turned, positive in ((P, None), (P @ Q, None), (P @ Q, np.ones(4) @ Q)):
        hull = Hull.from_directions(turned * 10.0 ** rng.uniform(-3, 3, (40, 1)), positive)
        np.testing.assert_array_equal(hull.vertex_indices, rays)
    assert hull.contains(P @ Q).all()
    with pytest.raises(ValueError, match="do not lie in a pointed cone"):
        Hull.from_directions(np.vstack([P, -P[:1]]))
    with pytest.raises(ValueError, match=r"positive gives -.* on row 0"):
        Hull.from_directions(P, -np.ones(4))
    with pytest.raises(ValueError, match=r"positive has shape \(3,\); expected \(4,\)"):
        Hull.from_directions(P, np.ones(3))
    with pytest.raises(ValueError, match="row 1 of P is zero"):
        Hull.from_directions([[1, 2], [0, 0]])
    with pytest.raises(ValueError, match="row 0 of Y has"):
        hull.distance(-P @ Q)


@pytest.mark.parametrize(
    ("X", "tol", "message"),
    [
        ([[1.0, np.nan]], 1e-8, "X has NaN at row 0, column 1"),
        ([1.0, 2.0], 1e-8, "expected two dimensions"),
        (np.ones((3, 2)), 0, "tol must be a number above 0"),
        (
            np.ones((3, 50)),
            1e-10,
            "tol = 1e-10 is below .*, the least that can be proven in dimension 50",
        ),
        ([["a"]], 1e-8, "X holds text"),
    ],
)
def test_bad_input(X, tol, message):
    with pytest.raises(ValueError, match=message):
        Hull.from_points(X, tol)


def shares_over_lists(V, Y, start=None, limit=None):
    """As `nnls` finds them where there are very many points."""
    options = dict.fromkeys(("upper", "allowed", "weights")) | {"ridge": 0.0, "l1": 0.0}
    constraints = Constraints.checked(options | {"simplex": True}, V.shape[1], len(V), len(Y))
    scaled = Scaled.of(np.ascontiguousarray(V.T), constraints)
    return scaled, *solve_block(scaled, None, Y.copy(), slice(0, len(Y)), start, limit, None)


def test_short_lists_find_the_nearest_points_of_many():
    """Over lists of the points: the same ones, proven, and warm starts take one round."""
    rng = np.random.default_rng(6)
    V = rng.standard_normal((80, 5))
    Y = np.vstack(
        [
            2 * rng.standard_normal((20, 5)),
            rng.dirichlet(np.ones(80), 10) @ V,
            V[:5],
            V[:5] * (1 + 1e-9),
        ]
    )
    expected, distance = nnls(V.T, Y.T, simplex=True)
    _, record, kkt = shares_over_lists(V, Y)
    assert (record.ending == OPTIMAL).all()
    assert kkt.max() < 1e-13
    assert record.steps.max() > 1
    np.testing.assert_allclose(record.rnorm, distance, atol=1e-12)
    np.testing.assert_allclose(record.X @ V, (V.T @ expected).T, atol=1e-11)
    _, warm, _ = shares_over_lists(V, Y, record.X.copy())
    np.testing.assert_allclose(warm.X, record.X, atol=1e-9)
    assert warm.steps.max() == 1
    assert (shares_over_lists(V, Y, limit=1)[1].ending != OPTIMAL).any()
    many = np.vstack([V, 0.5 * rng.standard_normal((600, 5))])
    _, _, info = nnls(many.T, Y.T, simplex=True, full_output=True)
    assert info.method == "lists"
    assert info.converged.all()


@pytest.mark.parametrize("error", [1e-12, 1e-8, 1e-4, 1.0])
@pytest.mark.parametrize("n_more", [0, 1, 70])
def test_the_lower_bound_of_short_lists_holds_for_any_shares(error, n_more):
    """Whatever shares are measured, optimal or not and of however many points, no distance is below
    the bound."""
    rng = np.random.default_rng(7)
    V, Y = rng.standard_normal((80, 5)), 2 * rng.standard_normal((20, 5))
    X, distance = nnls(V.T, Y.T, simplex=True)
    shares = X.T * (1 + error * rng.uniform(-1, 1, (20, 80)))
    shares[:, :n_more] += error * rng.random((20, n_more))
    shares /= shares.sum(axis=1, keepdims=True)
    scaled, _, _ = shares_over_lists(V, Y)
    B, units = scaled.right_hand_sides(Y)
    block, _ = new_block(scaled, np.empty((0, 80, 80)), B, np.ones((20, 1)), slice(0, 20))
    solved = Solved(shares, (shares > 0).astype(np.int8), np.zeros(20), np.zeros(20))
    found = measure(scaled, block, solved)
    least, _ = bound_values(scaled, None, block, solved, found)
    rnorm = np.linalg.norm(shares @ V - Y, axis=1)
    np.testing.assert_allclose(found.rnorm * units, rnorm, rtol=1e-12)
    assert (least * units <= distance * (1 + 1e-12)).all()
    assert error < 1 or not (least * units >= rnorm * (1 - 1e-3)).all()


@pytest.mark.parametrize("signed", [False, True])
def test_a_saved_hull_is_the_same_and_is_verified_after_loading(tmp_path, signed):
    X = np.random.default_rng(4).standard_normal((60, 3)) + (
        np.array([5.0, 0, 0]) if signed else 0.0
    )
    frame = pd.DataFrame(X, index=[f"p{i}" for i in range(60)])
    hull = Hull.from_directions(frame) if signed else Hull.from_points(frame)
    hull.save(tmp_path / "hull.npz")
    again = Hull.load(tmp_path / "hull.npz")
    assert again.verify(X) == hull.verify(X)
    assert again.vertex_names.tolist() == hull.vertex_names.tolist()
    np.testing.assert_array_equal(again.distance(2 * X), hull.distance(2 * X))
    with pytest.raises(CertificateError):
        again.verify(X[::-1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"beside.centre": None}, "'centre' of shape \\(3,\\) is missing or damaged"),
        ({"beside.vertices": np.full((2, 3), np.nan)}, "'vertices'"),
        ({"beside.radius": np.float64(-1)}, "its radius is -1"),
    ],
)
def test_a_damaged_hull_file_is_refused(tmp_path, change, message):
    Hull.from_points(np.random.default_rng(4).standard_normal((20, 3))).save(tmp_path / "hull.npz")
    with np.load(tmp_path / "hull.npz") as file:
        arrays = {name: array for name, array in (dict(file) | change).items() if array is not None}
    np.savez(tmp_path / "other.npz", **arrays)
    with pytest.raises(ConeFileError, match=message):
        Hull.load(tmp_path / "other.npz")
    Cone.from_points(np.eye(4)).save(tmp_path / "cone.npz")
    with pytest.raises(ConeFileError, match="holds no hull"):
        Hull.load(tmp_path / "cone.npz")
