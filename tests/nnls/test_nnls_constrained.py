"""Least squares with a sum of one, bounds, penalties, masks and weights: every answer is optimal,
and its lower bound holds."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from conecollapse import ConvergenceError, NotOptimalWarning, nnls
from conecollapse._nnls import products
from conecollapse._nnls.complement import pivot_complement

PLAIN = {"simplex": False, "upper": None, "ridge": 0.0, "l1": 0.0, "allowed": None, "weights": None}


def twice_objective(A, b, x, ridge=0.0, l1=0.0, weights=1.0):
    return np.sum(weights * (A @ x - b) ** 2) + ridge * x @ x + 2 * l1 * x.sum()


def brute_force(A, b, simplex, upper, ridge, l1, allowed, weights):
    """The smallest value of twice the objective, over all ways to put each variable at zero, at its
    bound, or between."""
    n = A.shape[1]
    G, c = A.T @ (weights[:, None] * A) + ridge * np.eye(n), A.T @ (weights * b) - l1
    choices = [
        (0,) if not allowed[j] else (0, 1, 2) if np.isfinite(upper[j]) else (0, 1) for j in range(n)
    ]
    best = np.inf
    for sides in map(np.array, product(*choices)):
        x, F = (
            np.where(sides == 2, np.where(np.isfinite(upper), upper, 0), 0.0),
            np.flatnonzero(sides == 1),
        )
        K, rhs = G[np.ix_(F, F)], c[F] - G[F] @ x
        if simplex:
            ones = np.ones((len(F), 1))
            K, rhs = np.block([[K, ones], [ones.T, np.zeros((1, 1))]]), np.append(rhs, 1 - x.sum())
        x[F] = np.linalg.lstsq(K, rhs, rcond=None)[0][: len(F)]
        if (
            (x > -1e-11).all()
            and (x < upper + 1e-11).all()
            and (not simplex or abs(x.sum() - 1) < 1e-9)
        ):
            best = min(best, twice_objective(A, b, x, ridge, l1, weights))
    return best


@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 4))
def test_brute_force_over_sides(seed, m, n):
    """For any combination of options: admissible, optimal, said to be so, and never below the
    reported bound."""
    rng = np.random.default_rng(seed)
    A = rng.integers(-3, 4, (m, n)).astype(float) if seed % 2 else rng.random((m, n))
    B, simplex = rng.integers(-3, 4, (m, 3)).astype(float), bool(rng.random() < 0.5)
    upper = (
        np.where(rng.random((n, 3)) < 0.5, np.inf, rng.integers(0, 5, (n, 3)) / 2)
        if rng.random() < 0.5
        else np.full((n, 3), np.inf)
    )
    allowed = rng.random((n, 3)) < 0.8 if rng.random() < 0.5 else np.ones((n, 3), bool)
    weights = rng.integers(0, 3, (m, 3)).astype(float) if rng.random() < 0.5 else np.ones((m, 3))
    ridge, l1 = rng.choice([0, 0, 0.1, 3]), 0.0 if simplex else rng.choice([0, 0, 0.1, 3])
    if simplex:
        allowed[0], upper[0] = True, np.maximum(upper[0], 1)
    options = {
        "simplex": simplex,
        "upper": upper,
        "ridge": ridge,
        "l1": l1,
        "allowed": allowed,
        "weights": weights,
    }
    X, rnorm, info = nnls(A, B, **options, full_output=True)
    assert info.converged.all()
    assert info.kkt_residual.max() < 1e-12
    assert ((X >= 0) & (upper >= X) & (allowed | (X == 0))).all()
    assert not simplex or np.abs(X.sum(axis=0) - 1).max() < 1e-12
    for j in range(3):
        x, w = X[:, j], weights[:, j]
        optimum = brute_force(A, B[:, j], simplex, upper[:, j], ridge, l1, allowed[:, j], w)
        assert twice_objective(A, B[:, j], x, ridge, l1, w) <= optimum + 1e-10
        assert info.least[j] <= np.sqrt(optimum) + 1e-9
        assert rnorm[j] == pytest.approx(np.sqrt(np.sum(w * (A @ x - B[:, j]) ** 2)), abs=1e-9)


def nearest_in_hull(A, b):
    """The point of the hull of the columns of A nearest to b, by SciPy: with P = A - b the minimum
    of |P h|^2 + (sum h - 1)^2 is at a multiple of the solution, because along each ray it is |P
    x|^2 / (1 + |P x|^2).
    """
    h = scipy.optimize.nnls(
        np.vstack([A - b[:, None], np.ones(A.shape[1])]), np.append(np.zeros(len(A)), 1.0)
    )[0]
    return A @ (h / h.sum())


FAMILIES = {
    "tall": lambda rng: rng.random((40, 8)),
    "signed": lambda rng: rng.standard_normal((30, 12)),
    "wide": lambda rng: rng.standard_normal((6, 40)),
    "repeated": lambda rng: np.repeat(rng.random((12, 5)), 3, axis=1),
    "far from zero": lambda rng: 1e4 + rng.random((20, 10)),
    "a shade of zeros": lambda rng: rng.random((15, 6)) * np.array([1, 0, 1, 1, 1, 1]),
    "smooth": lambda _: np.exp(
        -((np.linspace(0, 1, 50)[:, None] - np.linspace(0, 1, 15)) ** 2) * 20
    ),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_a_sum_of_one_gives_the_nearest_point_of_the_hull(name):
    rng = np.random.default_rng(0)
    A = FAMILIES[name](rng)
    inside, middle = A @ rng.dirichlet(np.full(A.shape[1], 0.3), 6).T, A.mean(axis=1)[:, None]
    B = np.hstack(
        [
            inside,
            inside + 0.1 * rng.standard_normal((len(A), 6)),
            A[:, :3],
            middle + rng.standard_normal((len(A), 5)),
        ]
    )
    X, rnorm, info = nnls(A, B, simplex=True, full_output=True)
    assert info.converged.all()
    scale = np.linalg.norm(A - middle, axis=0).max()
    assert rnorm[:6].max() < 1e-11 * (scale + np.linalg.norm(A, axis=0).max())
    for j in range(B.shape[1]):
        np.testing.assert_allclose(A @ X[:, j], nearest_in_hull(A, B[:, j]), atol=1e-8 * scale)


def test_only_differences_matter_with_a_sum_of_one():
    """x stays the same when A and b are moved by the same vector, scaled, or seen through an
    orthogonal map."""
    rng = np.random.default_rng(1)
    A, B, move = (
        rng.standard_normal((9, 6)),
        rng.standard_normal((9, 20)),
        rng.standard_normal((9, 1)),
    )
    X, rnorm = nnls(A, B, simplex=True)
    Q = np.linalg.qr(rng.standard_normal((9, 9)))[0]
    for scale in (1e-9, 1.0, 1e9):
        moved, distance = nnls(scale * (Q @ (A + move)), scale * (Q @ (B + move)), simplex=True)
        np.testing.assert_allclose(moved, X, atol=1e-12)
        np.testing.assert_allclose(distance / scale, rnorm, rtol=1e-9)


def test_bounds_agree_with_scipy():
    rng = np.random.default_rng(2)
    for A in (rng.standard_normal((30, 12)), rng.random((8, 20))):
        B, upper = rng.standard_normal((len(A), 5)), rng.random(A.shape[1]) * 0.3
        X, _, info = nnls(A, B, upper=upper, full_output=True)
        assert info.converged.all()
        for j in range(5):
            expected = scipy.optimize.lsq_linear(A, B[:, j], (0, upper), method="bvls", tol=1e-14)
            assert twice_objective(A, B[:, j], X[:, j]) <= 2 * expected.cost + 1e-10


@pytest.mark.parametrize("shape", [(25, 8), (6, 20)])
def test_ridge_weights_and_masks_are_plain_problems_in_disguise(shape):
    rng = np.random.default_rng(3)
    (m, n), k = shape, 7
    A, B, W, allowed = (
        rng.standard_normal(shape),
        rng.standard_normal((m, k)),
        rng.random((m, k)),
        rng.random((n, k)) < 0.7,
    )
    X, rnorm, info = nnls(A, B, ridge=0.3, weights=W, allowed=allowed, full_output=True)
    assert info.converged.all()
    for j in range(k):
        root = np.sqrt(W[:, j])
        stacked = np.vstack([root[:, None] * A, np.sqrt(0.3) * np.eye(n)])[:, allowed[:, j]]
        x, size = scipy.optimize.nnls(stacked, np.append(root * B[:, j], np.zeros(n)))
        np.testing.assert_allclose(X[allowed[:, j], j], x, atol=1e-10)
        np.testing.assert_allclose(
            np.hypot(rnorm[j], np.sqrt(0.3) * np.linalg.norm(x)), size, rtol=1e-10
        )
        one, r = nnls(A, B[:, j], ridge=0.3, weights=W[:, j], allowed=allowed[:, j])
        np.testing.assert_allclose(one, X[:, j], atol=1e-11)
        assert r == pytest.approx(rnorm[j])


def test_options_for_all_problems_equal_options_for_each():
    rng = np.random.default_rng(4)
    A, B, w, u, a = (
        rng.random((12, 6)),
        rng.random((12, 30)),
        rng.random(12),
        rng.random(6),
        np.array([1, 1, 0, 1, 1, 1], bool),
    )
    for more in ({}, {"ridge": 0.1, "l1": 0.05}, {"simplex": True}):
        one, r = nnls(A, B, weights=w, upper=u, allowed=a, **more)
        each, s = nnls(
            A,
            B,
            weights=w[:, None] * np.repeat([1, 2], 15),
            upper=np.tile(u[:, None], 30),
            allowed=np.tile(a[:, None], 30),
            **more,
        )
        np.testing.assert_allclose(each[:, :15], one[:, :15], atol=1e-11)
        np.testing.assert_allclose(s[:15], r[:15], rtol=1e-9)
        doubled = nnls(A, B, weights=2 * w, upper=u, allowed=a, **more)
        np.testing.assert_allclose(each[:, 15:], doubled[0][:, 15:], atol=1e-11)
        np.testing.assert_allclose(s[15:], doubled[1][15:], rtol=1e-9)


@pytest.mark.parametrize(
    "options",
    [
        {"simplex": True},
        {"upper": 0.2, "l1": 0.01},
        {"weights": np.linspace(0, 1, 20), "ridge": 0.1},
    ],
)
def test_sparse_float32_blocks_and_warm_starts(options):
    rng = np.random.default_rng(5)
    A, B = rng.random((20, 9)) * (rng.random((20, 9)) < 0.6), rng.random((20, 40))
    X, rnorm, info = nnls(A, B, **options, full_output=True)
    for As, Bs in ((sp.csr_array(A), B), (A, sp.csc_array(B))):
        np.testing.assert_allclose(nnls(As, Bs, **options)[0], X, atol=1e-11)
    single = nnls(A.astype(np.float32), B.astype(np.float32), **options)
    assert single[0].dtype == single[1].dtype == np.float32
    np.testing.assert_allclose(single[0], X, atol=1e-5)
    again, _, warm = nnls(A, B, **options, x0=X, full_output=True)
    np.testing.assert_allclose(again, X, atol=1e-12)
    assert warm.n_iter.sum() == 0
    assert info.n_iter.sum() > 0
    np.testing.assert_allclose(nnls(A, B, **options, x0=np.ones_like(X))[1], rnorm, rtol=1e-9)
    many = nnls(A, np.tile(B, 8), **options)[0]
    np.testing.assert_allclose(many, np.tile(X, 8), atol=1e-12)


def test_the_active_set_alone_gives_the_same_answers():
    """From no start, compiled or as it is written."""
    rng = np.random.default_rng(6)
    for A, options in (
        (rng.standard_normal((12, 8)), {"simplex": True}),
        (rng.random((5, 9)), {"simplex": True, "upper": 0.3}),
        (rng.standard_normal((4, 9)), {"upper": 0.7}),
        (rng.random((9, 5)), {"l1": 0.1}),
        (np.repeat(rng.random((9, 3)), 2, axis=1) * [1, 1, 2, 1, 1, 3], {"l1": 0.1}),
    ):
        B = rng.standard_normal((len(A), 6))
        expected = nnls(A, B, **options)
        G, (k, n), simplex = A.T @ A, (6, A.shape[1]), "simplex" in options
        problems = products.Problems(
            (G + simplex)[None],
            np.zeros(k, np.int64),
            B.T @ A - options.get("l1", 0.0),
            np.full((1, n), options.get("upper", np.inf)),
            np.ones(k),
        )
        total, slides = 1.0 if simplex else None, True if "l1" in options else None
        found = products.solve(problems, total=total, slides=slides)
        assert (found.ending == products.OPTIMAL).all()
        for i in range(k):
            least = twice_objective(A, B[:, i], expected[0][:, i], l1=options.get("l1", 0.0))
            value = twice_objective(A, B[:, i], found.X[i], l1=options.get("l1", 0.0))
            assert value == pytest.approx(least, rel=1e-9)


def test_a_limit_on_steps_is_kept():
    rng = np.random.default_rng(7)
    A, B = rng.random((30, 20)), rng.random((30, 4))
    x, _, info = nnls(A, B, simplex=True, x0=np.eye(20)[:, :4], maxiter=1, full_output=True)
    assert not info.converged.any()
    assert np.abs(x.sum(axis=0) - 1).max() < 1e-12
    with pytest.raises(ConvergenceError, match="Maximum number of iterations"):
        nnls(A, B, simplex=True, x0=np.eye(20)[:, :4], maxiter=1)


def test_what_is_not_proven_is_said():
    """Columns that differ by less than rounding, and no bound on x: the answer is not claimed to be
    optimal."""
    A, b = np.array([[1.0, -1.0], [1e-12, 1e-12]]), np.array([0.0, 1.0])
    # the plain solver has 32 digits
    assert nnls(A, b, weights=[1.0, 2.0], full_output=True)[2].converged[0]
    assert not nnls(A, b, l1=1e-14, full_output=True)[2].converged[0]
    with pytest.warns(NotOptimalWarning, match="may not be optimal"):
        nnls(A, b, l1=1e-14)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"simplex": 1}, "simplex must be True or False; got 1"),
        ({"simplex": True, "l1": 0.1}, "l1 = 0.1 has no effect where coefficients sum to one"),
        (
            {"simplex": True, "upper": 0.3},
            r"cannot sum to one: the upper bounds of those that are allowed sum to 0.9",
        ),
        (
            {"simplex": True, "allowed": [[1, 0], [1, 0], [0, 0]]},
            "coefficients of column 1 of b cannot sum to one",
        ),
        ({"upper": [1, -1, 1]}, "upper has -1 at entry 1; bounds must be numbers of at least 0"),
        ({"upper": np.nan}, "upper has nan; bounds must be"),
        ({"upper": [1, 2]}, r"upper has shape \(2,\); expected a number, \(3,\) or \(3, 2\)"),
        ({"ridge": -1}, "ridge must be a number of at least 0; got -1"),
        ({"l1": "a"}, "l1 must be a number of at least 0; got 'a'"),
        (
            {"allowed": [[1, 2], [1, 1], [1, 1]]},
            "allowed has 2 at row 0, column 1; a mask holds True and False",
        ),
        (
            {"allowed": np.ones((2, 2), bool)},
            r"allowed has shape \(2, 2\); expected \(3,\) or \(3, 2\)",
        ),
        (
            {"weights": [1, 1, -1, 1]},
            "weights has -1 at entry 2; weights must be finite and at least 0",
        ),
        ({"weights": [1, np.nan, 1, 1]}, "weights has NaN at entry 1"),
        ({"weights": np.ones((4, 3))}, r"weights has shape \(4, 3\); expected \(4,\) or \(4, 2\)"),
        ({"simplex": True, "method": "bpp"}, 'method="bpp" solves x >= 0 alone'),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        nnls(np.arange(12.0).reshape(4, 3), np.ones((4, 2)), **options)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("distance", [1e4, 1e8, 1e16, 1e40, 1e135])
def test_coefficients_sum_to_one_however_far_away_the_right_hand_side_is(sign, distance):
    """The nearest point is then the column that goes furthest in that direction."""
    A = np.random.default_rng(8).random((4, 3))
    # by the Gram matrix, and by short lists
    for columns in (A, np.hstack([A, 0.5 * np.random.default_rng(9).random((4, 700))])):
        x, _, info = nnls(
            columns, np.array([sign * distance, 0.5, 0.5, 0.5]), simplex=True, full_output=True
        )
        assert info.converged.all()
        np.testing.assert_allclose(
            x, np.eye(columns.shape[1])[np.argmax(sign * columns[0])], atol=1e-12
        )


def test_right_hand_sides_too_far_away_for_a_sum_of_one_are_refused():
    """Also where some of their entries are near: the squares of such distances overflow."""
    A = np.random.default_rng(8).random((4, 3))
    with pytest.raises(
        ValueError,
        match=r"times longer than the columns of A; with simplex=True 1e\+140 is the limit",
    ):
        nnls(A, np.array([1e145, 0.5, 0.5, 0.5]), simplex=True)


def test_few_bounds_that_bind_are_found_from_the_solution_without_bounds():
    """Rows of X minimise ``x G x / 2 - c x`` without bounds; with bounds, slopes are zero between
    them and point outwards at them."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((40, 6))
    G = A.T @ A
    C = rng.random((50, 6)) @ G - 3 * (rng.random((50, 6)) < 0.2)
    free = np.linalg.solve(G, C.T).T
    X, upper = free.copy(), np.full((1, 6), 0.9)
    side, solved, steps = pivot_complement(np.linalg.inv(G), X, upper, np.abs(C).max(axis=1))
    assert solved.all()
    assert steps.max() > 0
    assert (X >= 0).all()
    assert (X <= 0.9).all()
    slope = X @ G - C
    assert (np.abs(slope[(X > 0) & (X < 0.9)]) < 1e-9).all()
    assert (slope[X == 0] > -1e-9).all()
    assert (slope[X == 0.9] < 1e-9).all()
    assert (side != 0).any()


TALL = np.array([[1.0, 2.0], [3.0, 1.0], [1.0, 1.0]])


@pytest.mark.parametrize(
    ("A", "b", "options"),
    [
        (1e200 * TALL, 1e-200 * TALL.sum(axis=1), {"upper": 1.0}),
        (1e200 * TALL, 1e-200 * TALL.sum(axis=1), {"weights": [1.0, 2.0, 4.0]}),
        (1e200 * TALL, 1e-200 * TALL.sum(axis=1), {"allowed": [[True, False], [True, True]]}),
        (1e-200 * TALL, 1e200 * TALL.sum(axis=1), {"weights": [1.0, 2.0, 4.0]}),
    ],
)
def test_coefficients_that_no_number_holds_are_not_called_optimal(A, b, options):
    B = np.column_stack([b, b])
    X, rnorm, info = nnls(A, B, full_output=True, **options)
    root = np.sqrt(np.asarray(options.get("weights", np.ones(3))))[:, None]
    R = root * (B - A @ X)
    np.testing.assert_allclose(
        rnorm, [np.abs(R).max() * np.linalg.norm(r / np.abs(R).max()) for r in R.T], rtol=1e-12
    )
    assert not info.converged.any()


@pytest.mark.parametrize(
    ("size", "options"),
    [(1e-150, {"l1": 1e-7}), (1e150, {"allowed": [True, False], "x0": [1.0, 1.0]})],
)
def test_penalties_and_starts_beyond_all_numbers_leave_no_nan(size, options):
    x, rnorm, info = nnls(size * TALL, 1e-180 * TALL[:, 0], full_output=True, **options)
    assert np.isfinite([*x, rnorm, *info.kkt_residual, *info.least]).all()
    if "l1" in options:  # it is 1e+323 times what the columns gain
        assert info.converged.all()
        assert not x.any()


def test_a_right_hand_side_of_zeros_has_the_solution_zero_from_any_start():
    rng = np.random.default_rng(0)
    A, upper = rng.standard_normal((20, 60)), 10.0 ** rng.uniform(-300, 300, 60)
    x, rnorm, info = nnls(A, np.zeros(20), upper=upper, x0=rng.random(60), full_output=True)
    assert not x.any()
    assert rnorm == 0
    assert info.converged.all()


@pytest.mark.parametrize("options", [{"upper": [0.4, 0.8, 1.0]}, {"ridge": 1e-3}, {}])
def test_coefficients_sum_to_one_where_nothing_is_shown_to_be_optimal(options):
    rng = np.random.default_rng(3)
    A = rng.standard_normal((5, 1)) + 1e-13 * rng.standard_normal((5, 3))
    B = rng.standard_normal((5, 4)) * [1e120, 1e90, 1e60, 1e30]
    X, rnorm, _ = nnls(A, B, simplex=True, full_output=True, **options)
    np.testing.assert_allclose(X.sum(axis=0), 1.0, atol=1e-8)
    assert (X >= 0).all()
    assert (options.get("upper", [1.0] * 3) - X.T >= -1e-12).all()
    np.testing.assert_allclose(rnorm, np.linalg.norm(B - A @ X, axis=0), rtol=1e-6)


@pytest.mark.parametrize("weight", [1e-12, 1e12])
@pytest.mark.parametrize("by_row", [True, False])
def test_rounding_to_float32_is_judged_in_the_norm_of_the_weights(by_row, weight):
    rng = np.random.default_rng(0)
    one, other = rng.standard_normal((2, 20, 1))
    A = np.hstack([one, 1e-4 * other - one]).astype(np.float32)
    B = (A.astype(float) @ (rng.uniform(1e4, 2e4, 4) * np.ones((2, 1)))).astype(np.float32)
    weights = np.full((20, 4), weight)
    if not by_row:
        weights[0] = weight * rng.random(4)
    X, rnorm, info = nnls(A, B, weights=weights, full_output=True)
    true = np.sqrt((weights * (A.astype(float) @ X - B) ** 2).sum(axis=0))
    np.testing.assert_allclose(rnorm, true, rtol=1e-6)
    assert not info.converged.any()
